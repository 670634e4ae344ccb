# SPDX-License-Identifier: Apache-2.0
from itertools import combinations

import numpy as np
import pytest

from newfound_sim.errors import ScenarioError
from newfound_sim.lights import Panel, Sun
from newfound_sim.rooms.names import BUILDINGS, CATEGORIES, LIGHTINGS
from newfound_sim.rooms.pieces import overlap
from newfound_sim.rooms.room import build_room, illuminate

NEEDED = {
    "bathroom": {"toilet", "washbasin"},
    "bedroom": {"bed"},
    "corridor": {"fire_extinguisher"},
    "kitchen": {"kitchen_counter", "fridge"},
    "living_room": {"sofa", "television"},
    "office": {"desk"},
}
every_kind = pytest.mark.parametrize(
    ("building", "category"), [(b, c) for b in BUILDINGS for c in CATEGORIES]
)


@every_kind
def test_furniture_stays_within_the_walls_and_pieces_do_not_interpenetrate(building, category):
    for seed in range(2):
        room = build_room(building, category, seed)
        limit = np.array([room.plan.width, room.plan.depth, room.plan.height])
        for placed in room.furniture:
            points = np.concatenate([solid.vertices for solid in placed.solids()])
            assert points.min() > -1e-6
            assert np.all(points.max(axis=0) < limit + 1e-6), placed.piece.name
        standing = [placed for placed in room.furniture if not placed.piece.flat]
        for a, b in combinations(standing, 2):
            assert not overlap(a.box, b.box), (a.piece.name, b.piece.name)


@every_kind
def test_a_room_has_what_its_kind_is_known_by(building, category):
    names = {placed.piece.name for placed in build_room(building, category, 3).furniture}
    assert NEEDED[category] <= names


def test_a_box_holds_exactly_what_stands_in_it():
    for placed in build_room("townhouse", "living_room", 5).furniture:
        points = np.concatenate([solid.vertices for solid in placed.solids()])
        np.testing.assert_allclose(placed.box, [points.min(axis=0), points.max(axis=0)], atol=1e-9)


def test_the_same_seed_builds_the_same_room_and_another_seed_another():
    first, again = (build_room("loft", "kitchen", 4) for _ in range(2))
    other = build_room("loft", "kitchen", 5)
    assert first.plan == again.plan != other.plan
    for a, b in zip(first.furniture, again.furniture, strict=True):
        np.testing.assert_array_equal(a.box, b.box)


def test_unknown_names_are_refused():
    with pytest.raises(ScenarioError, match="unknown building 'castle'"):
        build_room("castle", "kitchen", 0)
    with pytest.raises(ScenarioError, match="unknown category 'cellar'"):
        build_room("loft", "cellar", 0)


@pytest.mark.parametrize(("building", "category"), [(b, c) for b in BUILDINGS for c in CATEGORIES])
@pytest.mark.parametrize("lighting", LIGHTINGS)
def test_every_room_has_a_source_of_light(building, category, lighting):
    light = illuminate(build_room(building, category, 0), lighting)
    shining = [pane for pane in light.panes if pane.finish.kind == "emitter"]
    assert light.lamp is not None or shining or light.lights


def test_lamps_burn_at_night_and_rest_on_a_bright_day():
    room = build_room("townhouse", "living_room", 0)
    assert illuminate(room, "night").lamp is not None
    assert illuminate(room, "cloudy").lamp is None
    assert illuminate(room, "sunny").lamp is None


def test_the_sky_behind_the_windows_lets_the_sun_through():
    room = build_room("loft", "living_room", 1)
    sky, sun = illuminate(room, "sunny").lights
    assert isinstance(sky, Panel)
    assert isinstance(sun, Sun)
    towards_sun = -np.asarray(sun.direction)
    lowest = min(o.bottom for o in room.plan.openings if o.kind == "window")
    steps = (sky.centre[1] - room.plan.depth) / towards_sun[1]
    assert lowest + steps * towards_sun[2] >= sky.centre[2] + sky.height / 2


def test_an_unknown_lighting_is_refused():
    with pytest.raises(ScenarioError, match="unknown lighting 'dusk'"):
        illuminate(build_room("loft", "office", 0), "dusk")
