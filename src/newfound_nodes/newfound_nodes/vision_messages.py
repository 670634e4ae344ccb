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
        Detection3D,
        Detection3DArray,
        LabelInfo,
        ObjectHypothesis,
        ObjectHypothesisWithPose,
        VisionClass,
    )
except ImportError:
    Classification = ObjectHypothesis = None
    Detection2D = Detection2DArray = ObjectHypothesisWithPose = None
    Detection3D = Detection3DArray = LabelInfo = VisionClass = None

AVAILABLE = Classification is not None


def classification(header: Any, labels: Sequence[str], probabilities: np.ndarray) -> Any:
    """A vision_msgs/Classification with all classes, the most probable first."""
    order = np.argsort(-probabilities, kind="stable")
    results = [
        ObjectHypothesis(class_id=labels[index], score=float(probabilities[index]))
        for index in order
    ]
    return Classification(header=header, results=results)


def label_info(stamp: Any, labels: Sequence[str], threshold: float = 0.0) -> Any:
    """A vision_msgs/LabelInfo: the number of each class is its place in the list."""
    made = LabelInfo(threshold=float(threshold))
    made.header.stamp = stamp
    made.class_map = [VisionClass(class_id=n, class_name=name) for n, name in enumerate(labels)]
    return made


def detections(message: Any, unknown_class_id: str) -> Any:
    """A vision_msgs/Detection2DArray of an OpenWorldDetections message.

    `id` is the track id. An unknown object has the hypothesis `unknown_class_id`, or none if that
    is empty.
    """
    found = [_detection(message.header, each, unknown_class_id) for each in message.detections]
    return Detection2DArray(header=message.header, detections=found)


def _detection(header: Any, found: Any, unknown_class_id: str) -> Any:
    made = Detection2D(header=header, id=str(found.track_id))
    made.bbox.center.position.x = found.region.x_offset + found.region.width / 2
    made.bbox.center.position.y = found.region.y_offset + found.region.height / 2
    made.bbox.size_x, made.bbox.size_y = float(found.region.width), float(found.region.height)
    made.results = _hypotheses(found, unknown_class_id)
    return made


def _hypotheses(found: Any, unknown_class_id: str) -> list[Any]:
    class_id = found.label or unknown_class_id
    if not class_id:
        return []
    # The score of an unknown object is that of being an object at all.
    score = found.score if found.label else found.objectness
    hypothesis = ObjectHypothesis(class_id=class_id, score=float(score))
    return [ObjectHypothesisWithPose(hypothesis=hypothesis)]


def detections_3d(message: Any, header: Any, poses: Sequence[Any], unknown_class_id: str) -> Any:
    """A vision_msgs/Detection3DArray of the detections with a position.

    `header` and `poses` say where they are. The covariance of a pose has the square of
    `position_error`, a third for each axis.
    """
    found = [each for each in message.detections if each.has_position]
    made = []
    for each, pose in zip(found, poses, strict=True):
        one = Detection3D(header=header, id=str(each.track_id))
        one.bbox.center, one.bbox.size = pose, each.size
        one.results = _hypotheses(each, unknown_class_id)
        for result in one.results:
            result.pose.pose = pose
            for axis in range(3):
                result.pose.covariance[7 * axis] = each.position_error**2 / 3
        made.append(one)
    return Detection3DArray(header=header, detections=made)
