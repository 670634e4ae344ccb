# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.absence import Look, look_at
from newfound_core.detection.camera_rays import Calibration

CALIBRATION = Calibration(525 / 640, 525 / 480, 0.5, 0.5)
SIZE = np.array([[0.1, 0.1, 0.1]])


def look(depth, point=(0.0, 0.0, 1.0), error=0.01):
    whole = np.full((480, 640), depth, np.float32) if np.isscalar(depth) else depth
    places = np.array([point])
    return look_at(places, SIZE, np.array([error]), whole, CALIBRATION)[0]


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
    assert look(1.05, error=0.01) == Look.SEEN_THROUGH
    assert look(1.05, error=0.03) == Look.OCCUPIED


def test_the_place_is_looked_at_where_the_calibration_says_it_is():
    depth = np.full((480, 640), 1.2, np.float32)
    depth[:, 320:] = 0.95
    assert look(depth, (0.2, 0.1, 1.0)) == Look.OCCUPIED
    assert look(depth, (-0.2, 0.1, 1.0)) == Look.SEEN_THROUGH
