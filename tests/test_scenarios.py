# SPDX-License-Identifier: Apache-2.0
"""The scenarios that we ship can be filmed, and the demo clip is the film of its scenario."""

import json

import pytest

from newfound_sim.clip_rendering import ClipOptions, description
from newfound_sim.scenario_file import load_scenario
from tests import ROOT

SCENARIOS = sorted((ROOT / "config/scenarios").glob("*.yaml"))


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda f: f.stem)
def test_every_scenario_is_valid(file):
    assert load_scenario(file).frames > 0


def test_the_demo_clip_was_made_from_the_demo_scenario():
    clip = json.loads((ROOT / "src/newfound_sim/clips/workbench_demo/clip.json").read_text())
    scenario = load_scenario(ROOT / "config/scenarios/workbench_demo.yaml")
    assert clip["made_from"] == description(scenario, ClipOptions())
