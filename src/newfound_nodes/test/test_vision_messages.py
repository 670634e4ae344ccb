# SPDX-License-Identifier: Apache-2.0
"""With the real vision_msgs where it is installed, else with a stand-in of the same layout."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Pose, PoseWithCovariance, Vector3
from sensor_msgs.msg import RegionOfInterest
from std_msgs.msg import Header

from newfound_msgs.msg import OpenWorldDetection, OpenWorldDetections
from newfound_nodes import vision_messages
from newfound_nodes.place_categorizer import PlaceCategorizer
from newfound_runtime.testing import eventually


@dataclass
class Hypothesis:
    """vision_msgs/ObjectHypothesis."""

    class_id: str = ""
    score: float = 0.0


@dataclass
class Stand:
    """vision_msgs/Classification."""

    header: Any = None
    results: list[Hypothesis] = field(default_factory=list)


@dataclass
class Posed:
    """vision_msgs/ObjectHypothesisWithPose."""

    hypothesis: Any = None
    pose: Any = field(default_factory=PoseWithCovariance)


@dataclass
class Found:
    """vision_msgs/Detection2D."""

    header: Any = None
    id: str = ""
    bbox: Any = field(default_factory=lambda: SimpleNamespace(
        center=SimpleNamespace(position=SimpleNamespace(x=0.0, y=0.0)), size_x=0.0, size_y=0.0
    ))  # fmt: skip
    results: list[Posed] = field(default_factory=list)


@dataclass
class Findings:
    """vision_msgs/Detection2DArray."""

    header: Any = None
    detections: list[Found] = field(default_factory=list)


@dataclass
class Found3D:
    """vision_msgs/Detection3D."""

    header: Any = None
    id: str = ""
    bbox: Any = field(default_factory=lambda: SimpleNamespace(center=Pose(), size=Vector3()))
    results: list[Posed] = field(default_factory=list)


@dataclass
class Named:
    """vision_msgs/VisionClass."""

    class_id: int = 0
    class_name: str = ""


@dataclass
class Labels:
    """vision_msgs/LabelInfo."""

    threshold: float = 0.0
    header: Any = field(default_factory=Header)
    class_map: list[Named] = field(default_factory=list)


STAND_INS = {
    "LabelInfo": Labels,
    "VisionClass": Named,
    "Classification": Stand,
    "ObjectHypothesis": Hypothesis,
    "ObjectHypothesisWithPose": Posed,
    "Detection2D": Found,
    "Detection2DArray": Findings,
    "Detection3D": Found3D,
    "Detection3DArray": Findings,
}


@pytest.fixture
def vision(monkeypatch):
    """The module, able to make messages in any case."""
    if not vision_messages.AVAILABLE:
        for name, stand_in in STAND_INS.items():
            monkeypatch.setattr(vision_messages, name, stand_in)
    return vision_messages


def test_all_classes_are_told_the_most_probable_first(vision):
    header = Header(frame_id="camera")
    made = vision.classification(header, ("a", "b", "c"), np.array([0.2, 0.7, 0.1]))
    assert made.header == header
    assert [(r.class_id, r.score) for r in made.results] == [("b", 0.7), ("a", 0.2), ("c", 0.1)]


def test_labels_are_numbered_in_their_order(vision):
    made = vision.label_info(Time(sec=3), ["mug", "bowl"], 0.5)
    assert (made.header.stamp.sec, made.threshold) == (3, 0.5)
    assert [(c.class_id, c.class_name) for c in made.class_map] == [(0, "mug"), (1, "bowl")]


def test_ids_are_track_ids_and_an_unknown_object_has_a_hypothesis_of_its_own(vision):
    region = RegionOfInterest(x_offset=10, y_offset=20, width=30, height=41)
    known = OpenWorldDetection(label="mug", score=0.5, region=region, track_id=7)
    unknown = OpenWorldDetection(nearest_label="mug", region=region, unknown_id="u1", track_id=8)
    unknown.objectness = 0.75
    message = OpenWorldDetections(header=Header(frame_id="a"), detections=[known, unknown])
    made = vision.detections(message, "unknown")
    assert made.header.frame_id == "a"
    mug, other = made.detections
    assert (mug.bbox.center.position.x, mug.bbox.center.position.y) == (25.0, 40.5)
    assert (mug.bbox.size_x, mug.bbox.size_y, mug.id) == (30.0, 41.0, "7")
    assert [(r.hypothesis.class_id, r.hypothesis.score) for r in mug.results] == [("mug", 0.5)]
    [result] = other.results
    assert (result.hypothesis.class_id, result.hypothesis.score) == ("unknown", 0.75)
    assert other.id == "8"
    assert list(vision.detections(message, "").detections[1].results) == []


def test_only_detections_with_a_position_are_in_the_3d_message(vision):
    size = Vector3(x=0.1, y=0.05, z=0.2)
    mug = OpenWorldDetection(label="mug", score=0.5, has_position=True, size=size, track_id=3)
    mug.position_error = 0.03
    flat = OpenWorldDetection(label="sheet", score=0.9)
    message = OpenWorldDetections(header=Header(frame_id="camera"), detections=[flat, mug])
    pose = Pose(position=Point(x=1.0, y=2.0, z=3.0))
    made = vision.detections_3d(message, Header(frame_id="map"), [pose], "unknown")
    assert made.header.frame_id == "map"
    [found] = made.detections
    assert (found.bbox.center, found.bbox.size, found.id) == (pose, size, "3")
    [result] = found.results
    assert (result.hypothesis.class_id, result.pose.pose) == ("mug", pose)
    diagonal = [result.pose.covariance[7 * axis] for axis in range(6)]
    assert diagonal == pytest.approx([3e-4, 3e-4, 3e-4, 0, 0, 0])


def test_the_topic_exists_where_the_package_does(ros, checkpoint, stream):
    camera = stream()
    node = ros.started(PlaceCategorizer, checkpoint=str(checkpoint("bn")))
    topics = dict(ros.client.get_topic_names_and_types())
    offered = "/place_categorizer/vision_classification" in topics
    assert offered == vision_messages.AVAILABLE
    if offered:
        kind = vision_messages.Classification
        answers = ros.collect(kind, "/place_categorizer/vision_classification")
        camera.connect(node).send(node)
        answer = eventually(lambda: answers and answers[-1])
        assert [result.class_id for result in answer.results]
        assert sum(result.score for result in answer.results) == pytest.approx(1)
