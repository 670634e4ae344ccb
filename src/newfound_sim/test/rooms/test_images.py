# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from newfound_sim.errors import ScenarioError
from newfound_sim.rooms.images import room_image, view_image
from newfound_sim.rooms.names import BUILDINGS, CATEGORIES, LIGHTINGS
from newfound_sim.rooms.walk import walk

TINY = (24, 18)
# Each building, category and lighting at least once: all 72 together would take a minute.
SOME = [(BUILDINGS[i % 4], LIGHTINGS[i % 3], CATEGORIES[(i + i // 6) % 6]) for i in range(12)]


@pytest.mark.parametrize(("building", "lighting", "category"), SOME)
def test_pictures_are_neither_black_nor_burnt_nor_blank(building, lighting, category):
    frame = room_image(building, lighting, category, 0, TINY, samples=2)
    assert frame.rgb.shape == (18, 24, 3)
    assert frame.rgb.dtype == np.uint8
    assert 25 < frame.rgb.mean() < 215
    assert frame.rgb.std() > 12
    assert np.median(frame.depth) > 0.7  # not in front of a wall


def test_the_same_seed_gives_the_same_pixels_and_another_view_others():
    first = room_image("loft", "sunny", "office", 2, TINY, samples=2)
    room_image("cottage", "night", "kitchen", 2, TINY, samples=1)  # nothing is carried over
    again = room_image("loft", "sunny", "office", 2, TINY, samples=2)
    np.testing.assert_array_equal(first.rgb, again.rgb)
    np.testing.assert_array_equal(first.depth, again.depth)
    other = room_image("loft", "sunny", "office", 2, TINY, view=1, samples=2)
    assert np.any(first.rgb != other.rgb)


def test_light_changes_the_colours_and_not_the_geometry():
    day = room_image("townhouse", "cloudy", "living_room", 1, TINY, samples=2)
    night = room_image("townhouse", "night", "living_room", 1, TINY, samples=2)
    # Windows are the exception: by day one looks through them.
    assert np.mean(np.isclose(day.depth, night.depth, atol=1e-3)) > 0.9
    warmth = [np.mean(f.rgb[..., 0].astype(float) - f.rgb[..., 2]) for f in (day, night)]
    assert warmth[1] > warmth[0] + 5


def test_frames_of_a_walk_can_be_rendered():
    view, _, room = next(walk("institute", "cloudy", 0, 3, TINY))
    assert view_image(room, "cloudy", view, samples=1).rgb.shape == (18, 24, 3)


def test_impossible_requests_are_refused():
    with pytest.raises(ScenarioError, match="unknown building"):
        room_image("castle", "sunny", "office", 0)
    with pytest.raises(ScenarioError, match="unknown lighting"):
        room_image("loft", "dusk", "office", 0)
    with pytest.raises(ScenarioError, match="8x8 is too small"):
        room_image("loft", "sunny", "office", 0, 8)
