# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.boxes import iou
from newfound_core.detection.depth_relief import (
    DepthRelief,
    DepthReliefConfig,
    dominant_plane,
    inverse_depth,
)
from newfound_core.errors import ConfigError, DataError

RGB = np.zeros((480, 640, 3), np.uint8)


@pytest.mark.parametrize("noise", [0.0, 0.001])
def test_things_on_a_table_are_found_and_nothing_else(table, noise):
    depth, boxes = table(noise=noise)
    found = DepthRelief().propose(RGB, depth)
    assert len(found) == 2
    assert (iou(boxes, found.boxes).max(1) > 0.85).all()
    assert ((found.objectness > 0) & (found.objectness <= 1)).all()


def test_boxes_are_in_pixels_of_the_colour_image(table):
    depth, boxes = table()
    small = np.zeros((240, 320, 3), np.uint8)
    found = DepthRelief().propose(small, depth)
    assert (iou(boxes / 2, found.boxes).max(1) > 0.85).all()


def test_an_empty_table_a_wall_of_noise_or_no_depth_give_nothing(table):
    noise = np.random.default_rng(0).uniform(0.2, 5, (480, 640)).astype(np.float32)
    for depth in (table(boxes=(), heights=())[0], noise, np.zeros((480, 640), np.float32), None):
        assert len(DepthRelief().propose(RGB, depth)) == 0


def test_a_hole_in_the_table_is_no_object(table):
    depth, _ = table(boxes=((100, 80, 160, 140),), heights=(-0.1,))
    assert len(DepthRelief().propose(RGB, depth)) == 0


def test_what_is_not_a_depth_image_is_refused():
    with pytest.raises(DataError, match="depth"):
        DepthRelief().propose(RGB, np.zeros((4, 4, 3), np.float32))
    with pytest.raises(ConfigError, match="min_relief"):
        DepthReliefConfig(min_relief=0)
    with pytest.raises(ConfigError, match="min_area"):
        DepthReliefConfig(min_area=0.5)


def test_the_plane_is_found_under_the_things_on_it(table):
    depth, _ = table()
    bare, _ = table(boxes=(), heights=())
    plane = dominant_plane(inverse_depth(depth), tolerance=0.005, least_share=0.2)
    seen = bare > 0
    np.testing.assert_allclose(1 / plane[seen], bare[seen], rtol=0.005)


def test_it_is_found_in_a_noisy_image(table):
    depth, _ = table(noise=0.002)
    bare, _ = table(boxes=(), heights=())
    plane = dominant_plane(inverse_depth(depth), tolerance=0.006, least_share=0.2)
    np.testing.assert_allclose(1 / plane[bare > 0], bare[bare > 0], rtol=0.01)


def test_the_same_image_gives_the_same_plane(table):
    inverse = inverse_depth(table(noise=0.002)[0])
    np.testing.assert_array_equal(
        dominant_plane(inverse, 0.005, 0.2), dominant_plane(inverse, 0.005, 0.2)
    )


def test_without_measurements_or_in_a_cloud_of_points_there_is_none():
    assert dominant_plane(np.zeros((48, 64), np.float32), 0.005, 0.2) is None
    cloud = np.random.default_rng(0).uniform(0.2, 5, (48, 64)).astype(np.float32)
    assert dominant_plane(cloud, 0.005, 0.2) is None
    line = np.zeros((48, 64), np.float32)
    line[10] = 1
    assert dominant_plane(line, 0.005, 0.2) is None


def test_what_was_not_measured_is_zero():
    depth = np.array([[0, -1, np.nan, np.inf, 2]], np.float32)
    assert inverse_depth(depth).tolist() == [[0, 0, 0, 0, 0.5]]
