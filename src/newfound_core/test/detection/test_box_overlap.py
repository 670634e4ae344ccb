# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from newfound_core.detection.box_overlap import Box, overlap, share_inside
from newfound_core.sightings import SAME_PLACE

UPRIGHT = (0.0, 0.0, 0.0, 1.0)


def turned(degrees):
    """About the vertical."""
    half = math.radians(degrees) / 2
    return (0.0, 0.0, math.sin(half), math.cos(half))


def test_a_box_is_inside_itself_and_nothing_of_it_in_one_far_away():
    box = Box((1.0, 2.0, 0.5), turned(30), (0.3, 0.1, 0.05))
    assert share_inside(box, box) == 1.0
    assert share_inside(box, Box((2.0, 2.0, 0.5), UPRIGHT, (0.3, 0.1, 0.05))) == 0.0


def test_a_box_that_is_moved_by_half_its_length_is_half_inside():
    long = Box((0.0, 0.0, 0.0), turned(45), (0.4, 0.1, 0.1))
    along = 0.2 * math.sqrt(0.5)
    moved = Box((along, along, 0.0), turned(45), (0.4, 0.1, 0.1))
    assert share_inside(moved, long) == pytest.approx(0.5, abs=0.11)
    across = Box((along, -along, 0.0), turned(45), (0.4, 0.1, 0.1))
    assert share_inside(across, long) == 0.0


def test_the_share_is_that_of_the_smaller_box():
    large, small = Box((0, 0, 0), UPRIGHT, (0.4, 0.4, 0.1)), Box((0.1, 0, 0), UPRIGHT, (0.1,) * 3)
    assert overlap(large, small) == overlap(small, large) == 1.0
    assert share_inside(large, small) < 0.2


def test_a_thing_on_another_is_not_in_it():
    book, mug = (
        Box((0, 0, 0.02), UPRIGHT, (0.2, 0.3, 0.04)),
        Box((0, 0, 0.09), UPRIGHT, (0.1,) * 3),
    )
    assert overlap(book, mug) < SAME_PLACE / 2  # the margin reaches its foot
