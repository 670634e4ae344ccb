# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.depth_geometry import measure_surfaces
from newfound_core.detection.proposals import CameraView
from newfound_core.detection.support_surfaces import find_planes, find_support

CAMERA = CameraView()
FOCAL = 0.82 * 640


def room(pitch=40.0, table=(-0.5, 0.5, 0.5, 1.3), shelf=None, wall=None, thing=True):
    """Depth of a floor 1.3 m below the camera, and a table (0.7 m below it) with a box on it.

    Rectangles are left, right, near, far in metres on the floor; the camera looks down by
    `pitch` degrees.
    """
    v, u = np.mgrid[:480, :640]
    rays = np.stack([(u - 319.5) / FOCAL, (v - 239.5) / FOCAL, np.ones((480, 640))], -1)
    c, s = np.cos(np.radians(pitch)), np.sin(np.radians(pitch))
    down, ahead = rays[..., 1] * c + s, c - rays[..., 1] * s  # of the world, for each ray
    depth = np.full((480, 640), np.inf)

    def level(below, area=None):
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(down > 0, below / down, np.inf)
            x, y = rays[..., 0] * z, ahead * z
        if area is not None:
            left, right, near, far = area
            z = np.where((x > left) & (x < right) & (y > near) & (y < far), z, np.inf)
        np.minimum(depth, z, out=depth)

    level(1.3)
    level(0.7, table)
    if thing:
        level(0.6, (-0.1, 0.1, 0.8, 0.95))
    if shelf is not None:
        level(0.45, shelf)
        level(0.38, (shelf[0] + 0.08, shelf[0] + 0.2, shelf[2] + 0.1, shelf[2] + 0.22))
    if wall is not None:
        np.minimum(depth, np.where(ahead > 0, wall / np.maximum(ahead, 1e-9), np.inf), out=depth)
    depth[depth > 6] = 0
    return depth.astype(np.float32), np.array([0, -c, -s])


@pytest.mark.parametrize("pitch", [30.0, 45.0, 55.0])
@pytest.mark.parametrize("wall", [None, 1.5])
def test_the_table_is_the_support_though_floor_and_wall_are_seen_too(pitch, wall):
    depth, up = room(pitch, wall=wall)
    support = find_support(measure_surfaces(depth, CAMERA), 0.003, None)
    assert support.planes[0].distance == pytest.approx(0.7, abs=0.01)
    np.testing.assert_allclose(support.planes[0].normal, up, atol=0.02)


def test_heights_are_above_the_support(table):
    depth, boxes = table(((300, 200, 420, 260),), (0.05,))
    camera = CameraView(focal_x=460 / 640, focal_y=460 / 640)
    support = find_support(measure_surfaces(depth, camera), 0.003, None)
    left, top, right, bottom = (boxes[0] // 2).astype(int)
    inside = np.s_[top + 3 : bottom - 3, left + 3 : right - 3]
    np.testing.assert_allclose(support.height[inside], 0.05, atol=2e-3)
    assert support.above[inside].all()
    assert support.above.sum() < 1.2 * (right - left) * (bottom - top)


def test_things_on_a_shelf_and_on_the_table_below_stand_on_both():
    depth, _ = room(35.0, table=(-0.6, 0.6, 0.5, 1.6), shelf=(0.0, 0.6, 1.15, 1.6))
    support = find_support(measure_surfaces(depth, CAMERA), 0.003, None)
    distances = sorted(plane.distance for plane in support.planes)
    assert distances[:2] == pytest.approx([0.45, 0.7], abs=0.01)
    assert 0.05 < np.median(support.height[support.above]) < 0.12


def test_a_known_up_direction_rules_a_wall_out():
    """A camera before a wall with a picture frame on it: only up tells that this is no table."""
    depth = np.full((480, 640), 1.0, np.float32)
    depth[150:250, 200:400] = 0.95
    surfaces = measure_surfaces(depth, CAMERA)
    assert find_support(surfaces, 0.003, None) is not None
    assert find_support(surfaces, 0.003, CameraView.up_at_pitch(0)) is None
    assert find_support(surfaces, 0.003, CameraView.up_at_pitch(90)) is not None


def test_no_plane_no_support():
    noise = np.random.default_rng(0).uniform(0.2, 5, (480, 640)).astype(np.float32)
    surfaces = measure_surfaces(noise, CAMERA)
    assert find_planes(surfaces) == []
    assert find_support(surfaces, 0.003, None) is None


@pytest.mark.parametrize("rows", [np.s_[203:209], np.s_[200:212]])
def test_points_on_one_line_are_no_plane(rows):
    """Of depth in a strip of the image a single row of the grid may be left."""
    depth = np.zeros((480, 640), np.float32)
    depth[rows] = 1
    assert find_planes(measure_surfaces(depth, CAMERA)) == []
