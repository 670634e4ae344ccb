# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from newfound_core.detection.boxes import iou
from newfound_core.detection.depth_geometry import Surfaces
from newfound_core.detection.depth_segments import (
    DepthSegments,
    DepthSegmentsConfig,
    _concave,
    _steps,
)
from newfound_core.detection.detector import Detector
from newfound_core.errors import ConfigError, DataError

GREY = np.full((480, 640, 3), 120, np.uint8)
APART = ((100, 80, 160, 140), (300, 200, 420, 260))
# The second stands before the first and hides a part of it.
TOUCHING = ((200, 120, 320, 220), (260, 160, 380, 300))


def found(boxes, proposals):
    """How many boxes are covered by a proposal of their own at IoU 0.5."""
    return int((iou(boxes, proposals.boxes).max(1, initial=0) >= 0.5).sum())


@pytest.mark.parametrize("noise", [0.0, 0.001])
def test_things_that_stand_apart_are_found_and_nothing_else(table, noise):
    depth, boxes = table(APART, (0.06, 0.05), noise)
    proposals = DepthSegments().propose(GREY, depth)
    assert len(proposals) == found(boxes, proposals) == 2
    assert iou(boxes, proposals.boxes).max(1).min() > 0.8
    assert (proposals.objectness > DepthSegments.min_objectness).all()
    assert set(proposals.sources) == {"depth"}


def test_things_that_touch_come_apart_where_depth_has_a_step(table):
    depth, boxes = table(TOUCHING, (0.05, 0.12))
    proposals = DepthSegments().propose(GREY, depth)
    assert len(proposals) == found(boxes, proposals) == 2


def test_a_thing_behind_another_is_one_though_its_middle_is_hidden(table):
    behind, before = (180, 150, 460, 200), (280, 120, 360, 300)
    depth, boxes = table((behind, before), (0.05, 0.14))
    proposals = DepthSegments().propose(GREY, depth)
    assert len(proposals) == found(boxes, proposals) == 2


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_holes_are_bridged(table, share):
    depth, boxes = table(APART, (0.06, 0.05))
    depth[np.random.default_rng(0).random(depth.shape) < share] = 0
    assert found(boxes, DepthSegments().propose(GREY, depth)) == 2


def test_flying_pixels_are_neither_objects_nor_cuts(table):
    depth, boxes = table(APART, (0.06, 0.05))
    rng = np.random.default_rng(0)
    stray = rng.random(depth.shape) < 0.02
    depth[stray] *= rng.uniform(0.5, 1.5, stray.sum())
    proposals = DepthSegments().propose(GREY, depth)
    assert len(proposals) == found(boxes, proposals) == 2


@pytest.mark.parametrize("deviation", [0.002, 0.01])
def test_noise_that_grows_with_the_distance_is_no_object(table, deviation):
    depth, boxes = table(APART, (0.06, 0.05))
    noise = np.random.default_rng(0).normal(size=depth.shape)
    noisy = ((depth + deviation * depth**2 * noise) * (depth > 0)).astype(np.float32)
    proposals = DepthSegments().propose(GREY, noisy)
    assert len(proposals) == found(boxes, proposals) == 2


@pytest.mark.parametrize("size", [(320, 240), (640, 480), (1280, 960)])
def test_neither_the_resolution_of_depth_nor_that_of_colour_matters(table, size):
    depth, boxes = table(APART, (0.06, 0.05))
    scaled = cv2.resize(depth, size, interpolation=cv2.INTER_NEAREST)
    assert found(boxes, DepthSegments().propose(GREY, scaled)) == 2
    large = np.full((960, 1280, 3), 120, np.uint8)
    assert found(2 * boxes, DepthSegments().propose(large, scaled)) == 2


def test_cuts_are_where_the_equations_have_them_across_and_down():
    """Rough ground, so that about half of the pixels are cut; no side meets the other."""
    rng = np.random.default_rng(0)
    w = rng.uniform(0.9, 1.1, (14, 17)).astype(np.float32)
    points, normals = rng.normal(size=(2, 3, 14, 17)).astype(np.float32)
    surfaces = Surfaces(w, points, normals, np.arange(17.0), np.arange(14.0), 1e-3)
    steps, concave = _steps(surfaces, 0.1), _concave(surfaces, 0.3)
    for row, column in np.ndindex(w.shape):
        step = edge = False
        for down, right in ((0, 1), (1, 0)):
            place, length = (row, 14) if down else (column, 17)

            def at(values, by, down=down, right=right, row=row, column=column):
                return values[..., row + by * down, column + by * right].astype(float)

            if 3 <= place < length - 3:
                before, here, after = (at(w, by + 1) - at(w, by - 1) for by in (-2, 0, 2))
                limit = 0.1 * max(at(w, -1), at(w, 1)) + 4e-3
                step |= min(abs(here - before), abs(here - after)) > limit
            if 1 <= place < length - 1:
                way, turn = at(points, 1) - at(points, -1), at(normals, 1) - at(normals, -1)
                edge |= turn @ way < -0.3 * np.linalg.norm(way)
        assert steps[row, column] == step
        assert concave[row, column] == edge
    assert 0.2 < steps.mean() < 0.8
    assert 0.2 < concave.mean() < 0.8


def test_a_hole_in_the_table_is_no_object(table):
    depth, _ = table(((100, 80, 160, 140),), (-0.1,))
    assert len(DepthSegments().propose(GREY, depth)) == 0


def test_an_empty_table_a_wall_of_noise_or_no_depth_give_nothing(table):
    proposer = DepthSegments()
    noise = np.random.default_rng(0).uniform(0.2, 5, (480, 640)).astype(np.float32)
    for depth in (table((), ())[0], noise, None):
        assert len(proposer.propose(GREY, depth)) == 0
    for nothing in (0.0, np.nan, np.inf, -1.0):
        assert len(proposer.propose(GREY, np.full((480, 640), nothing, np.float32))) == 0


@pytest.mark.parametrize("shape", [(4, 4, 3), (4, 4), (0, 0)])
def test_what_is_not_a_depth_image_is_refused(shape):
    with pytest.raises(DataError, match="depth"):
        DepthSegments().propose(GREY, np.zeros(shape, np.float32))


def test_the_same_image_gives_the_same_boxes(table):
    depth, _ = table(TOUCHING, (0.05, 0.12))
    one, other = (DepthSegments().propose(GREY, depth).boxes for _ in range(2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "wrong", [{"min_height": 0}, {"max_step": float("nan")}, {"min_area": 0.5, "max_area": 0.1}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        DepthSegmentsConfig(**wrong)


@pytest.mark.slow
@pytest.mark.skipif("NEWFOUND_DATA" not in os.environ, reason="NEWFOUND_DATA is not set: osd")
def test_most_objects_of_real_scenes_are_found():
    root = Path(os.environ["NEWFOUND_DATA"]) / "osd"
    detector = Detector(DepthSegments())
    seen = right = 0
    for file in sorted((root / "rgb").glob("*.jpg"))[::5]:
        rgb = cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB)
        depth = cv2.imread(str(root / "depth" / f"{file.stem}.png"), -1).astype(np.float32) / 1e3
        label = cv2.imread(str(root / "label" / f"{file.stem}.png"), -1) // 10
        boxes = []
        for number in np.unique(label[label >= 2]):
            rows, columns = np.nonzero(label == number)
            boxes.append([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
        right += found(np.array(boxes, np.float32), detector.regions(rgb, depth))
        seen += len(boxes)
    assert right / seen > 0.85
