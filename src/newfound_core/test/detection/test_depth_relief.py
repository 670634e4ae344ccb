# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.boxes import iou
from newfound_core.detection.depth_relief import DepthRelief, DepthReliefConfig
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
