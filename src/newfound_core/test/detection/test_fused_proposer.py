# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.fused_proposer import FusedProposer, FusionConfig
from newfound_core.detection.proposals import CameraView, Proposals
from newfound_core.errors import ConfigError

GREY = np.full((480, 640, 3), 120, np.uint8)
APART = ((100, 80, 160, 140), (300, 200, 420, 260))


class Regions:
    """A proposer of colour that says what it was told."""

    needs_depth = False
    min_objectness = 0.5

    def __init__(self, boxes, objectness=None):
        self.boxes = np.array(boxes, np.float32).reshape(-1, 4)
        sure = [0.8] * len(self.boxes) if objectness is None else objectness
        self.objectness = np.array(sure, np.float32)

    def propose(self, rgb, depth):
        return Proposals(self.boxes, self.objectness)


@pytest.fixture
def fused(table):
    """Sources by box of what is found with these regions of colour on a table with two things."""
    depth, _ = table(APART, (0.06, 0.05))

    def propose(regions, objectness=None, hole=None, **config):
        shown = depth.copy()
        if hole is not None:
            left, top, right, bottom = hole
            shown[top:bottom, left:right] = 0
        proposer = FusedProposer(
            DepthSegments(), Regions(regions, objectness), FusionConfig(**config)
        )
        found = proposer.propose(GREY, shown)
        assert (np.diff(found.objectness) <= 0).all()
        return found

    return propose


def test_what_both_find_is_one_object_with_the_box_of_depth(fused):
    alone = fused([])
    both = fused([(95, 75, 165, 145)])
    assert sorted(alone.sources) == ["depth", "depth"]
    assert sorted(both.sources) == ["depth", "depth+colour"]
    np.testing.assert_array_equal(np.sort(both.boxes, 0), np.sort(alone.boxes, 0))
    assert both.objectness[0] > alone.objectness.max()


def test_a_region_around_several_segments_and_a_part_of_one_are_dropped(fused):
    found = fused([(90, 70, 430, 270), (305, 205, 340, 250)])
    assert sorted(found.sources) == ["depth", "depth"]


def test_what_depth_does_not_see_is_found_by_colour(fused):
    glass = (500, 300, 560, 400)
    found = fused([glass], hole=glass)
    assert sorted(found.sources) == ["colour", "depth", "depth"]
    index = found.sources.index("colour")
    np.testing.assert_array_equal(found.boxes[index], glass)
    assert found.objectness[index] == pytest.approx(0.8)


def test_something_flat_is_kept_with_less_certainty(fused):
    found = fused([(500, 300, 560, 400)], flat_discount=0.5)
    assert found.objectness[found.sources.index("colour")] == pytest.approx(0.4)


def test_a_thing_of_which_depth_sees_a_part_gets_the_box_of_colour(fused):
    bottle = (300, 200, 420, 460)  # depth sees its upper end, and nothing of the rest
    found = fused([bottle], hole=(290, 262, 430, 470))
    assert sorted(found.sources) == ["depth", "depth+colour"]
    box = found.boxes[found.sources.index("depth+colour")]
    np.testing.assert_allclose(box, bottle, atol=4)


def test_regions_that_the_network_itself_does_not_believe_in_are_left_out(fused):
    assert "colour" not in fused([(500, 300, 560, 400)], [0.4], flat_discount=0.0).sources


def test_without_depth_colour_alone_is_left():
    regions = Regions([(10, 10, 50, 50), (90, 90, 120, 120)], [0.6, 0.3])
    found = FusedProposer(DepthSegments(), regions).propose(GREY, None)
    assert found.sources == ("colour",)
    np.testing.assert_array_equal(found.boxes, [[10, 10, 50, 50]])


def test_depth_of_another_size_and_nothing_at_all(table):
    depth, _ = table(APART, (0.06, 0.05))
    proposer = FusedProposer(DepthSegments(), Regions([]))
    assert len(proposer.propose(GREY, depth[::2, ::2])) == 2
    assert len(proposer.propose(GREY, np.zeros((480, 640), np.float32))) == 0


def test_the_camera_is_that_of_the_depth_proposer():
    segments = DepthSegments()
    proposer = FusedProposer(segments, Regions([]))
    proposer.camera = CameraView(focal_x=1.0)
    assert segments.camera.focal_x == proposer.camera.focal_x == 1.0


def test_shares_outside_0_to_1_are_refused():
    with pytest.raises(ConfigError, match="same_iou"):
        FusionConfig(same_iou=1.5)
