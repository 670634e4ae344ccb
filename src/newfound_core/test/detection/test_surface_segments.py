# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import numpy as np
import pytest

from newfound_core.detection.boxes import iou
from newfound_core.detection.depth_relief import DepthRelief
from newfound_core.detection.surface_segments import SurfaceSegments, SurfaceSegmentsConfig
from newfound_core.errors import ConfigError, DataError

GREY = np.full((480, 640, 3), 120, np.uint8)
APART = ((100, 80, 160, 140), (300, 200, 420, 260))
# The second stands before the first and hides a part of it.
TOUCHING = ((200, 120, 320, 220), (260, 160, 380, 300))


def found(boxes, proposals):
    """How many boxes are covered by a proposal of their own at IoU 0.5."""
    if not len(proposals):
        return 0
    return int((iou(boxes, proposals.boxes).max(1) >= 0.5).sum())


def test_things_that_stand_apart_are_found(table):
    depth, boxes = table(APART, (0.06, 0.05))
    proposals = SurfaceSegments().propose(GREY, depth)
    assert len(proposals) == found(boxes, proposals) == 2
    assert iou(boxes, proposals.boxes).max(1).min() > 0.8
    assert (proposals.objectness > SurfaceSegments.min_objectness).all()


def test_things_that_touch_come_apart_where_depth_has_a_step(table):
    depth, boxes = table(TOUCHING, (0.05, 0.12))
    assert len(DepthRelief().propose(GREY, depth)) == 1, "one box for both"
    proposals = SurfaceSegments().propose(GREY, depth)
    assert len(proposals) == found(boxes, proposals) == 2


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_holes_are_bridged(table, share):
    depth, boxes = table(APART, (0.06, 0.05))
    depth[np.random.default_rng(0).random(depth.shape) < share] = 0
    assert found(boxes, SurfaceSegments().propose(GREY, depth)) == 2


def test_noise_that_grows_with_the_distance_is_no_object(table):
    depth, boxes = table(APART, (0.06, 0.05))
    noise = np.random.default_rng(0).normal(size=depth.shape)
    proposals = SurfaceSegments().propose(GREY, (depth + 0.002 * depth**2 * noise) * (depth > 0))
    assert len(proposals) == found(boxes, proposals) == 2


def test_depth_of_another_size_gives_boxes_in_the_image(table):
    depth, boxes = table(APART, (0.06, 0.05))
    large = np.full((960, 1280, 3), 120, np.uint8)
    assert found(2 * boxes, SurfaceSegments().propose(large, depth)) == 2


def test_without_depth_or_a_surface_nothing_is_found():
    proposer = SurfaceSegments()
    assert len(proposer.propose(GREY, None)) == 0
    for nothing in (0.0, np.nan, np.inf):
        assert len(proposer.propose(GREY, np.full((480, 640), nothing, np.float32))) == 0
    with pytest.raises(DataError):
        proposer.propose(GREY, np.zeros((4, 4, 3), np.float32))


def test_the_same_image_gives_the_same_boxes(table):
    depth, _ = table(TOUCHING, (0.05, 0.12))
    one, other = (SurfaceSegments().propose(GREY, depth).boxes for _ in range(2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "wrong", [{"min_height": 0}, {"max_step": float("nan")}, {"min_area": 0.5, "max_area": 0.1}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        SurfaceSegmentsConfig(**wrong)


@pytest.mark.slow
@pytest.mark.skipif("NEWFOUND_DATA" not in os.environ, reason="NEWFOUND_DATA is not set: osd")
def test_most_objects_of_real_scenes_are_found():
    import cv2

    root = Path(os.environ["NEWFOUND_DATA"]) / "osd"
    seen = right = 0
    for file in sorted((root / "rgb").glob("*.jpg"))[::5]:
        rgb = cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB)
        depth = cv2.imread(str(root / "depth" / f"{file.stem}.png"), -1).astype(np.float32) / 1e3
        label = cv2.imread(str(root / "label" / f"{file.stem}.png"), -1) // 10
        boxes = []
        for number in np.unique(label[label >= 2]):
            rows, columns = np.nonzero(label == number)
            boxes.append([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
        right += found(np.array(boxes, np.float32), SurfaceSegments().propose(rgb, depth))
        seen += len(boxes)
    assert right / seen > 0.85
