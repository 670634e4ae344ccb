# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np

from newfound_sim.clip import SeenObject
from newfound_sim.keyframes import LinearImage, plan_clip, render_keyframe
from newfound_sim.lights import mix, named
from newfound_sim.scenario import RenderSettings, RoomKeyframe, RoomsScenario, Visit
from newfound_sim.scenario_file import load_scenario
from newfound_sim.workbench import BOUNCES, Bench


def test_a_scene_in_which_nothing_happens_is_rendered_once(tmp_path):
    file = tmp_path / "still.yaml"
    file.write_text(
        "kind: workbench\nduration: 60\nrate: 30\ncamera: webcam\nbackground: white\n"
        "light: cloudy\n"
    )
    plan = plan_clip(load_scenario(file), takes=3)
    assert len(plan.keyframes) == 1
    assert len(plan.images) == 3
    assert plan.frames[:7] == (0, 1, 2, 0, 1, 2, 0)
    assert len(plan.frames) == 1800


def test_a_drift_of_the_light_needs_two_renderings(tmp_path):
    file = tmp_path / "drift.yaml"
    file.write_text(
        "kind: workbench\nduration: 4\nrate: 10\ncamera: webcam\nbackground: white\n"
        "light: cloudy\nlight_changes: [{from: 1, until: 3, to: directed}]\n"
    )
    plan = plan_clip(load_scenario(file), takes=2)
    assert [e.light for e in plan.keyframes] == ["cloudy", "directed"]
    assert len(plan.images) == 2 + 19 + 2
    assert plan.shared == (0, 1)


def test_a_picture_with_a_rendering_of_its_own_shares_none(tiny_scenario):
    plan = plan_clip(load_scenario(tiny_scenario), takes=4)
    moving = plan.images[plan.frames[-1]]
    assert {number for number, _ in moving.mixture}.isdisjoint(plan.shared)


def test_light_adds_up(tiny_scenario):
    """The mixture of two renderings is the rendering of the mixture, but for the noise of each."""
    scenario = load_scenario(tiny_scenario)
    scenario = replace(scenario, settings=replace(scenario.settings, samples=64))
    keyframes = scenario.keyframes_at(1.2)
    assert len(keyframes) == 2
    blended = sum(w * render_keyframe(scenario, e, seed=1).light for e, w in keyframes.items())
    lighting = mix(named("artificial"), named("directed"), scenario.light_at(1.2).share)
    things = tuple(scenario.stays[n - 1].thing for n in scenario.objects_at(1.2))
    bench = Bench(things, lighting, scenario.background, scenario.settings.seed)
    view = scenario.pose_at(1.2).view(scenario.camera_model, 48, 36)
    direct = bench.scene.render(view, samples=64, seed=2, bounces=BOUNCES).rgb
    assert abs(blended.mean() / direct.mean() - 1) < 0.02
    assert np.median(np.abs(blended - direct) / (direct + 0.01)) < 0.08


def test_objects_keep_the_number_they_have_in_the_scenario(tiny_scenario):
    scenario = load_scenario(tiny_scenario)
    (early,), (late,) = scenario.keyframes_at(0.0), scenario.keyframes_at(1.9)
    assert [(o.instance, o.label) for o in render_keyframe(scenario, early, 0).objects] == [
        (2, "apple")
    ]
    assert [(o.instance, o.label) for o in render_keyframe(scenario, late, 0).objects] == [
        (1, "mug")
    ]


def test_a_room_has_light_and_depth():
    settings = RenderSettings(rate=2, width=32, height=24, samples=1)
    scenario = RoomsScenario(settings, "cottage", "cloudy", (Visit("office", 0, 4),))
    linear = render_keyframe(scenario, RoomKeyframe(0, 2), seed=0)
    assert linear.light.shape == (24, 32, 3)
    assert linear.light.mean() > 0
    assert 300 < np.median(linear.depth) < 12_000, "millimetres to the walls of a room"


def test_a_linear_survives_its_file(tmp_path):
    light = np.random.default_rng(0).uniform(0, 2, (6, 8, 3)).astype(np.float32)
    light[0, 0] = 1e9  # a lamp: more than half precision holds
    seen = (SeenObject(3, "mug", (1, 2, 3, 4), 0.5),)
    LinearImage(light, np.arange(48, dtype=np.uint16).reshape(6, 8), seen).save(tmp_path / "n.npz")
    found = LinearImage.load(tmp_path / "n.npz")
    np.testing.assert_allclose(found.light[1:], light[1:], rtol=1e-3)
    assert found.light[0, 0, 0] == 65504
    assert found.depth[5, 7] == 47
    assert found.objects == seen
