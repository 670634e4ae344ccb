# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from newfound_sim.errors import ScenarioError
from newfound_sim.lights import Panel, Sun
from newfound_sim.rooms.lighting import illuminate
from newfound_sim.rooms.names import BUILDINGS, CATEGORIES, LIGHTINGS
from newfound_sim.rooms.room import build_room


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
