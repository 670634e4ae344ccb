# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from newfound_sim.errors import ScenarioError
from newfound_sim.illumination import LIGHTINGS, LightDrift, mix, named, vary
from newfound_sim.lights import Bulb, Dome, Panel


def test_a_mixture_lies_between_and_ends_at_its_ends():
    a, b = named("artificial"), named("directed")
    assert mix(a, b, 0.0) == a
    assert mix(a, b, 1.0) == b
    half = mix(a, b, 0.5)
    np.testing.assert_allclose(half.side, np.asarray(b.side) / 2)
    np.testing.assert_allclose(half.ceiling, np.asarray(a.ceiling) / 2)


def test_each_illumination_has_its_own_sources():
    kinds = {name: {type(s) for s in light.lights()} for name, light in LIGHTINGS.items()}
    assert kinds["directed"] == {Dome, Bulb}
    assert Panel in kinds["artificial"]
    assert Bulb not in kinds["cloudy"]


def test_variation_keeps_the_kind_of_light():
    for name, light in LIGHTINGS.items():
        changed = vary(light, np.random.default_rng(0))
        assert changed != light
        assert [type(s) for s in changed.lights()] == [type(s) for s in light.lights()], name


def test_drifting_light_changes_slowly_and_repeats():
    drift = LightDrift(period=60)
    strengths = [np.sum(drift.at(t).ceiling) for t in np.arange(0, 60, 0.1)]
    whole = np.ptp(strengths)
    assert np.abs(np.diff(strengths)).max() < 0.03 * whole
    assert drift.at(0).dome == pytest.approx(named("artificial").dome)
    np.testing.assert_allclose(drift.at(20).dome[0], named("cloudy").dome[0], rtol=0.2)


def test_unknown_names_and_shares_are_refused():
    with pytest.raises(ScenarioError, match="artificial, cloudy, directed"):
        named("dusk")
    with pytest.raises(ScenarioError, match=r"\[0, 1\]"):
        mix(named("cloudy"), named("cloudy"), 1.2)
