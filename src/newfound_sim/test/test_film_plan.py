# SPDX-License-Identifier: Apache-2.0
from newfound_sim.film_plan import plan_film
from newfound_sim.scenario_file import load_scenario


def test_a_scene_in_which_nothing_happens_is_rendered_once(tmp_path):
    file = tmp_path / "still.yaml"
    file.write_text(
        "kind: workbench\nduration: 60\nrate: 30\ncamera: webcam\nbackground: white\n"
        "light: cloudy\n"
    )
    plan = plan_film(load_scenario(file), takes=3)
    assert len(plan.exposures) == 1
    assert len(plan.pictures) == 3
    assert plan.frames[:7] == (0, 1, 2, 0, 1, 2, 0)
    assert len(plan.frames) == 1800


def test_a_drift_of_the_light_needs_two_renderings(tmp_path):
    file = tmp_path / "drift.yaml"
    file.write_text(
        "kind: workbench\nduration: 4\nrate: 10\ncamera: webcam\nbackground: white\n"
        "light: cloudy\nlight_changes: [{from: 1, until: 3, to: directed}]\n"
    )
    plan = plan_film(load_scenario(file), takes=2)
    assert [e.light for e in plan.exposures] == ["cloudy", "directed"]
    assert len(plan.pictures) == 2 + 19 + 2
    assert plan.shared == (0, 1)


def test_a_picture_with_a_rendering_of_its_own_shares_none(tiny_scenario):
    plan = plan_film(load_scenario(tiny_scenario), takes=4)
    moving = plan.pictures[plan.frames[-1]]
    assert {number for number, _ in moving.mixture}.isdisjoint(plan.shared)
