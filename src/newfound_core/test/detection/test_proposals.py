# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.proposals import CameraView, Proposals, WholeImage
from newfound_core.errors import ConfigError, DataError


def test_every_box_has_a_score():
    with pytest.raises(DataError, match="2 scores"):
        Proposals(np.zeros((1, 4), np.float32), np.zeros(2, np.float32))
    with pytest.raises(DataError, match="1 sources"):
        Proposals(np.zeros((2, 4), np.float32), np.zeros(2, np.float32), ("depth",))
    assert len(Proposals.none()) == 0


def test_boxes_scores_and_sources_are_taken_together():
    boxes = np.arange(12, dtype=np.float32).reshape(3, 4)
    three = Proposals(boxes, np.array([0.1, 0.2, 0.3], np.float32), ("depth", "colour", "image"))
    taken = three.take(np.array([2, 0]))
    assert taken.sources == ("image", "depth")
    assert taken.boxes[:, 0].tolist() == [8, 0]
    assert taken.objectness == pytest.approx([0.3, 0.1])


def test_a_proposal_is_of_colour_unless_its_proposer_says_otherwise():
    assert Proposals(np.zeros((1, 4), np.float32), np.ones(1, np.float32)).sources == ("colour",)


def test_up_is_against_the_image_axis_of_a_level_camera_and_towards_one_that_looks_down():
    assert CameraView.up_at_pitch(0) == pytest.approx((0, -1, 0))
    assert CameraView.up_at_pitch(90) == pytest.approx((0, 0, -1))
    with pytest.raises(ConfigError, match="focal"):
        CameraView(focal_x=0)


def test_the_image_is_the_only_box():
    found = WholeImage().propose(np.zeros((48, 64, 3), np.uint8), None)
    assert found.boxes.tolist() == [[0, 0, 64, 48]]
    assert found.objectness.tolist() == [1]
    assert found.sources == ("image",)
