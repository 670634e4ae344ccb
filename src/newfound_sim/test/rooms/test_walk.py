# SPDX-License-Identifier: Apache-2.0
from itertools import groupby

import numpy as np
import pytest
from newfound_sim.errors import ScenarioError
from newfound_sim.rooms.names import BUILDINGS, CATEGORIES
from newfound_sim.rooms.viewpoints import floor_map
from newfound_sim.rooms.walk import walk


@pytest.mark.parametrize("building", BUILDINGS)
def test_a_walk_stays_on_free_floor_and_is_smooth_within_each_room(building):
    frames = list(walk(building, "cloudy", 1, frames_per_room=40))
    for room, group in groupby(frames, key=lambda frame: frame[2]):
        floor = floor_map(room)
        views = [view for view, _, _ in group]
        assert all(floor.is_free(*view.eye[:2]) for view in views)
        eyes = np.array([view.eye for view in views])
        assert np.linalg.norm(np.diff(eyes, axis=0), axis=1).max() < 0.9
        forward = np.array([np.subtract(view.target, view.eye) for view in views])
        turns = np.einsum("ij,ij->i", forward[1:], forward[:-1]).clip(-1, 1)
        assert np.degrees(np.arccos(turns)).max() < 25


def test_a_walk_visits_every_category_and_names_the_room_it_is_in():
    frames = list(walk("loft", "night", 2, frames_per_room=3))
    assert {category for _, category, _ in frames} == set(CATEGORIES)
    assert all(category == room.category for _, category, room in frames)
    visits = [category for category, _ in groupby(category for _, category, _ in frames)]
    assert visits[::2] == ["corridor"] * 5


def test_the_same_seed_walks_the_same_way():
    first = [view for view, _, _ in walk("cottage", "sunny", 3, 4)]
    assert first == [view for view, _, _ in walk("cottage", "sunny", 3, 4)]


def test_a_wrong_request_is_refused():
    with pytest.raises(ScenarioError, match="unknown lighting 'dusk'"):
        next(walk("loft", "dusk", 0, 5))
    with pytest.raises(ScenarioError, match="frames_per_room must be at least 2"):
        next(walk("loft", "night", 0, 1))
