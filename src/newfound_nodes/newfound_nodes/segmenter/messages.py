# SPDX-License-Identifier: Apache-2.0
"""What the segmenter knows as a message, and its masks as a picture for people."""

from collections.abc import Sequence

import cv2
import numpy as np

from newfound_core.segmentation.segmenter import colours, overlay
from newfound_msgs import msg
from newfound_nodes import debug_images
from newfound_nodes.knowledge.messages import known_class, time_message
from newfound_nodes.segmenter.session import SegmentsInUse

_LEAST_SHARE = 0.005  # of a picture, for a class to be named under it
_NAMED = 12  # classes at most


def knowledge_message(in_use: SegmentsInUse) -> msg.KnowledgeBase:
    """Everything that is known; a class's place in the list is its value in masks."""
    segmenter = in_use.segmenter
    return msg.KnowledgeBase(
        stamp=time_message(int(in_use.since * 1e9)),
        version=in_use.version,
        method=segmenter.loaded.metadata.method,
        classes=[
            known_class(
                label,
                in_use.classes.get(label),
                in_use.version,
                exemplars=in_use.reference.get(label, 0),
                rejection_threshold=segmenter.min_confidence,
            )
            for label in segmenter.labels
        ],
        restorable_versions=in_use.restorable,
    )


def annotate(rgb: np.ndarray, mask: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """The image with its mask over it, and the names of the colours that take most of it."""
    picture = overlay(np.ascontiguousarray(rgb), mask, labels)
    width = debug_images.WIDTH
    height = max(1, round(rgb.shape[0] * width / rgb.shape[1]))
    picture = cv2.resize(picture, (width, height), interpolation=cv2.INTER_LINEAR)
    shares = np.bincount(mask.ravel(), minlength=256) / mask.size
    names = {**dict(enumerate(labels)), 255: "unknown"}
    seen = [int(n) for n in np.argsort(-shares) if shares[n] >= _LEAST_SHARE and n][:_NAMED]
    table, line = colours(labels), debug_images.LINE
    legend = np.zeros((line * max(1, -(-len(seen) // 3)), width, 3), np.uint8)
    for place, number in enumerate(seen):
        left, top = place % 3 * (width // 3) + 8, place // 3 * line
        colour = tuple(int(c) for c in table[number])
        cv2.rectangle(legend, (left, top + 4), (left + 14, top + line - 6), colour, -1)
        text = f"{names.get(number, number)} {shares[number]:.0%}"
        debug_images.write(legend, text, (left + 22, top + line - 7))
    return np.concatenate([picture, legend])
