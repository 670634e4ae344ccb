# SPDX-License-Identifier: Apache-2.0
"""Places where something was: depth says whether it is there, hidden or gone."""

import numpy as np
import pytest

from newfound_core.detection.absence import Look, Place, look_at
from newfound_core.detection.camera_rays import Calibration

CALIBRATION = Calibration(525 / 640, 525 / 480, 0.5, 0.5)
SIZE = np.array([0.1, 0.1, 0.1])
UPRIGHT = np.diag([1.0, -1.0, -1.0])


def look(depth, point=(0.0, 0.0, 1.0), error=0.01):
    whole = np.full((480, 640), depth, np.float32) if np.isscalar(depth) else depth
    return look_at([Place(np.array(point), UPRIGHT, SIZE, error)], whole, CALIBRATION)[0]


@pytest.mark.parametrize(
    ("depth", "seen"),
    [
        (0.95, Look.OCCUPIED),  # its front
        (1.2, Look.SEEN_THROUGH),
        (0.5, Look.HIDDEN),
        (0.0, Look.HIDDEN),
        (np.nan, Look.HIDDEN),
    ],
)
def test_depth_says_whether_a_place_is_occupied_free_or_hidden(depth, seen):
    assert look(depth) == seen


@pytest.mark.parametrize("point", [(0.0, 0.0, -1.0), (2.0, 0.0, 1.0), (0.0, -0.46, 1.0)])
def test_what_is_outside_the_image_or_at_its_edge_was_not_looked_at(point):
    assert look(1.2, point) == Look.OUTSIDE


def test_an_uncertain_place_is_not_seen_through_by_what_is_just_behind():
    depth = np.full((480, 640), 1.5, np.float32)
    depth[220:260, 300:340] = 1.05
    assert look(depth, error=0.01) == Look.SEEN_THROUGH
    assert look(depth, error=0.03) == Look.OCCUPIED


def test_the_place_is_looked_at_where_the_calibration_says_it_is():
    depth = np.full((480, 640), 1.2, np.float32)
    depth[:, 320:] = 0.95
    assert look(depth, (0.2, 0.1, 1.0)) == Look.OCCUPIED
    assert look(depth, (-0.2, 0.1, 1.0)) == Look.SEEN_THROUGH


# A table seen from 50 degrees above, with or without something flat on it.

UP = np.array([0.0, -np.sin(np.radians(50)), -np.cos(np.radians(50))])
AHEAD = np.array([0.0, -np.cos(np.radians(50)), np.sin(np.radians(50))])
AXES = np.stack([[1.0, 0.0, 0.0], AHEAD, UP], 1)
FAR = 0.7  # m from the camera to the place, straight ahead


def table(boxes=(), noise=0.0):
    """Depth of a table with boxes (x, y, length, width, height on it, m)."""
    rays = np.concatenate([CALIBRATION.rays(240, 320), np.ones((1, 240, 320))])
    rays = rays.reshape(3, -1).T.astype(np.float64)
    local, eye = rays @ AXES, -np.array([0.0, 0.0, FAR]) @ AXES
    depth = -eye[2] / local[:, 2]
    for x, y, length, width, height in boxes:
        top = (height - eye[2]) / local[:, 2]
        across = eye + local * top[:, None] - (x, y, 0)
        hit = (np.abs(across[:, 0]) < length / 2) & (np.abs(across[:, 1]) < width / 2)
        depth = np.where(hit, top, depth)
    depth += noise * depth**2 * np.random.default_rng(0).standard_normal(depth.shape)
    return depth.reshape(240, 320).astype(np.float32)


def flat(depth, size=(0.2, 0.05, 0.01), error=0.01, lift=0.0, aside=0.0):
    """The look at the place of something flat, remembered a little above and beside it."""
    point = np.array([aside, 0.0, FAR]) + (size[2] / 2 + lift) * UP
    return look_at([Place(point, AXES, np.array(size), error)], depth, CALIBRATION)[0]


PLIERS = (0.0, 0.0, 0.2, 0.05, 0.01)
NOISE = 1.4e-3  # m at 1 m: a Kinect


def test_a_flat_thing_is_gone_when_its_footprint_is_as_high_as_the_table_around_it():
    assert flat(table([PLIERS], NOISE)) == Look.OCCUPIED
    assert flat(table([], NOISE)) == Look.SEEN_THROUGH


def test_an_open_thing_of_which_little_fills_its_box_is_not_gone():
    handle = (0.0, 0.02, 0.2, 0.01, 0.01)
    assert flat(table([handle], NOISE)) == Look.OCCUPIED


@pytest.mark.parametrize("lift", [-0.015, 0.015])
def test_an_error_of_the_height_neither_hides_nor_invents_it(lift):
    assert flat(table([PLIERS], NOISE), lift=lift) == Look.OCCUPIED
    assert flat(table([], NOISE), lift=lift) == Look.SEEN_THROUGH


def test_a_thing_that_lies_a_little_aside_is_not_gone():
    assert flat(table([PLIERS], NOISE), error=0.02, aside=0.02) == Look.OCCUPIED


def test_what_is_as_low_as_the_noise_is_not_judged():
    assert flat(table([], NOISE), size=(0.06, 0.03, 0.003)) == Look.OCCUPIED
    assert flat(table([]), size=(0.06, 0.03, 0.003)) == Look.SEEN_THROUGH


def test_another_thing_in_its_place_is_not_nothing():
    assert flat(table([(0.05, 0.0, 0.04, 0.04, 0.015)], NOISE)) == Look.OCCUPIED


def test_a_support_that_is_not_where_it_was_says_nothing():
    """The table was moved down, or the pose is far off."""
    assert flat(table([], NOISE), lift=0.05, error=0.06) == Look.OCCUPIED
