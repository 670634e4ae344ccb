# SPDX-License-Identifier: Apache-2.0
"""Results as vision_msgs, where that package is installed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

try:
    from vision_msgs.msg import (
        Classification,
        Detection2D,
        Detection2DArray,
        ObjectHypothesis,
        ObjectHypothesisWithPose,
    )
except ImportError:
    Classification = ObjectHypothesis = None
    Detection2D = Detection2DArray = ObjectHypothesisWithPose = None

AVAILABLE = Classification is not None


def classification(header: Any, labels: Sequence[str], probabilities: np.ndarray) -> Any:
    """A vision_msgs/Classification with all classes, the most probable first."""
    order = np.argsort(-probabilities, kind="stable")
    results = [
        ObjectHypothesis(class_id=labels[index], score=float(probabilities[index]))
        for index in order
    ]
    return Classification(header=header, results=results)


def detections(message: Any) -> Any:
    """A vision_msgs/Detection2DArray of an OpenWorldDetections message.

    "Unknown" is no class: an object that is unknown has no hypothesis, and its `id` is that of the
    UnknownObject once there is one. Others have the number of their track.
    """
    found = [_detection(message.header, each) for each in message.detections]
    return Detection2DArray(header=message.header, detections=found)


def _detection(header: Any, found: Any) -> Any:
    made = Detection2D(header=header, id=found.unknown_id or str(found.track_id))
    made.bbox.center.position.x = found.region.x_offset + found.region.width / 2
    made.bbox.center.position.y = found.region.y_offset + found.region.height / 2
    made.bbox.size_x, made.bbox.size_y = float(found.region.width), float(found.region.height)
    if found.label:
        hypothesis = ObjectHypothesis(class_id=found.label, score=float(found.score))
        made.results = [ObjectHypothesisWithPose(hypothesis=hypothesis)]
    return made
