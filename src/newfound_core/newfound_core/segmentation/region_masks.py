# SPDX-License-Identifier: Apache-2.0
"""Masks that nobody had to draw: regions of the depth proposer whose label was confirmed."""

import cv2
import numpy as np

from newfound_core.detection.boxes import iou
from newfound_core.detection.proposals import Proposals
from newfound_core.segmentation import UNLABELLED

LEAST_OVERLAP = 0.5  # IoU of a confirmed box and the box of a region, to be the same thing
_BORDER = 0.01  # of the image's width: depth is inexact at edges


def region_mask(proposals: Proposals, confirmed: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The mask, uint8 [height, width], of things at `confirmed` boxes [N, 4] in an image.

    1 inside of their regions, 255 (not known) at the borders of all regions, in regions that
    nobody confirmed and at confirmed boxes without a region; 0 elsewhere.
    """
    width, height = size
    confirmed = np.asarray(confirmed, np.float32).reshape(-1, 4)
    mask = np.zeros((height, width), np.uint8)
    overlap = iou(confirmed, proposals.boxes)
    found = np.zeros(len(confirmed), bool)
    scene = proposals.scene
    if scene is not None and scene.segments is not None:
        numbers = _numbers(proposals, size)
        mask[cv2.dilate((numbers > 0).astype(np.uint8), _border(width)) > 0] = UNLABELLED
        for place in np.flatnonzero(overlap.max(1, initial=0) >= LEAST_OVERLAP):
            region = (numbers == 1 + overlap[place].argmax()).astype(np.uint8)
            mask[cv2.erode(region, _border(width)) > 0] = 1
            found[place] = region.any()
    for left, top, right, bottom in confirmed[~found]:
        rows, columns = slice(max(0, int(top)), int(bottom) + 1), slice(max(0, int(left)), None)
        inside = mask[rows, columns][:, : max(0, int(right) + 1 - max(0, int(left)))]
        inside[inside == 0] = UNLABELLED
    return mask


def _border(width: int) -> np.ndarray:
    side = 1 + 2 * max(1, round(_BORDER * width / 2))
    return np.ones((side, side), np.uint8)


def _numbers(proposals: Proposals, size: tuple[int, int]) -> np.ndarray:
    """The proposal that each pixel of the image belongs to, counted from 1; 0: none."""
    scene = proposals.scene
    assert scene is not None
    assert scene.segments is not None
    width, height = size
    reduced_height, reduced_width = scene.inverse.shape
    rows = (np.arange(height) + 0.5) * reduced_height // height
    columns = (np.arange(width) + 0.5) * reduced_width // width
    labels = scene.label_at(rows.astype(int), columns.astype(int))
    numbers = np.zeros(labels.shape, np.int32)
    same = (proposals.boxes[:, None] == scene.segments.boxes[None]).all(2)  # they may be reordered
    for place, box in zip(*np.nonzero(same), strict=True):
        numbers[labels == scene.segments.numbers[box]] = 1 + place
    return numbers
