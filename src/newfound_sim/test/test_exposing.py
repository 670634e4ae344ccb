# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np

from newfound_sim.exposing import Negative, expose, millimetres
from newfound_sim.illumination import mix, named
from newfound_sim.scenario import Filming, RoomExposure, RoomsScenario, Visit
from newfound_sim.scenario_file import load_scenario
from newfound_sim.truth import SeenObject
from newfound_sim.workbench import BOUNCES, Bench


def test_light_adds_up(tiny_scenario):
    """The mixture of two renderings is the rendering of the mixture, but for the noise of each."""
    scenario = load_scenario(tiny_scenario)
    scenario = replace(scenario, filming=replace(scenario.filming, samples=64))
    exposures = scenario.exposures_at(1.2)
    assert len(exposures) == 2
    blended = sum(w * expose(scenario, e, seed=1).light for e, w in exposures.items())
    lighting = mix(named("artificial"), named("directed"), scenario.light_at(1.2).share)
    things = tuple(scenario.stays[n - 1].thing for n in scenario.objects_at(1.2))
    bench = Bench(things, lighting, scenario.background, scenario.filming.seed)
    view = scenario.pose_at(1.2).view(scenario.camera_model, 48, 36)
    direct = bench.scene.render(view, samples=64, seed=2, bounces=BOUNCES).rgb
    assert abs(blended.mean() / direct.mean() - 1) < 0.02
    assert np.median(np.abs(blended - direct) / (direct + 0.01)) < 0.08


def test_objects_keep_the_number_they_have_in_the_scenario(tiny_scenario):
    scenario = load_scenario(tiny_scenario)
    (early,), (late,) = scenario.exposures_at(0.0), scenario.exposures_at(1.9)
    assert [(o.instance, o.label) for o in expose(scenario, early, 0).objects] == [(2, "apple")]
    assert [(o.instance, o.label) for o in expose(scenario, late, 0).objects] == [(1, "mug")]


def test_a_room_has_light_and_depth():
    filming = Filming(rate=2, width=32, height=24, samples=1)
    scenario = RoomsScenario(filming, "cottage", "cloudy", (Visit("office", 0, 4),))
    negative = expose(scenario, RoomExposure(0, 2), seed=0)
    assert negative.light.shape == (24, 32, 3)
    assert negative.light.mean() > 0
    assert 300 < np.median(negative.depth) < 12_000, "millimetres to the walls of a room"


def test_depth_in_millimetres_is_rounded_and_zero_when_there_is_none():
    depth = np.array([0.5, 1.2344, 1.2346, np.inf, 70.0], np.float32)
    assert millimetres(depth).tolist() == [500, 1234, 1235, 0, 0]


def test_a_negative_survives_its_file(tmp_path):
    light = np.random.default_rng(0).uniform(0, 2, (6, 8, 3)).astype(np.float32)
    light[0, 0] = 1e9  # a lamp: more than half precision holds
    seen = (SeenObject(3, "mug", (1, 2, 3, 4), 0.5),)
    Negative(light, np.arange(48, dtype=np.uint16).reshape(6, 8), seen).save(tmp_path / "n.npz")
    found = Negative.load(tmp_path / "n.npz")
    np.testing.assert_allclose(found.light[1:], light[1:], rtol=1e-3)
    assert found.light[0, 0, 0] == 65504
    assert found.depth[5, 7] == 47
    assert found.objects == seen
