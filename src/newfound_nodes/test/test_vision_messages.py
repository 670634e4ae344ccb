# SPDX-License-Identifier: Apache-2.0
"""With the real vision_msgs where it is installed, else with a stand-in of the same layout."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from std_msgs.msg import Header

from newfound_nodes import vision_messages
from newfound_nodes.place_categorizer import PlaceCategorizer
from tests.harness import eventually


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


@pytest.fixture
def vision(monkeypatch):
    """The module, able to make messages in any case."""
    if not vision_messages.AVAILABLE:
        monkeypatch.setattr(vision_messages, "Classification", Stand)
        monkeypatch.setattr(vision_messages, "ObjectHypothesis", Hypothesis)
    return vision_messages


def test_all_classes_are_told_the_most_probable_first(vision):
    header = Header(frame_id="camera")
    made = vision.classification(header, ("a", "b", "c"), np.array([0.2, 0.7, 0.1]))
    assert made.header == header
    assert [(r.class_id, r.score) for r in made.results] == [("b", 0.7), ("a", 0.2), ("c", 0.1)]


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
