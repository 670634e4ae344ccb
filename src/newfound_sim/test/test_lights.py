# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import trimesh

from newfound_sim.errors import ScenarioError
from newfound_sim.lights import LIGHTINGS, Bulb, Dome, LightDrift, Panel, Sun, mix, named, vary
from newfound_sim.materials import Material
from newfound_sim.rendering import Part, View, render

WHITE = Material("diffuse", (1.0, 1.0, 1.0))


def radiance_below(light):
    """The light that a small white tile at the origin sends straight up."""
    tile = Part(trimesh.creation.box((0.1, 0.1, 0.01)).apply_translation((0, 0, -0.005)), WHITE)
    view = View((0, 0, 1), (0, 0, 0), 8, 8, fov_degrees=3, up=(0, 1, 0))
    return render([tile], [light], view, samples=256, denoise=False).rgb[2:6, 2:6].mean()


def test_the_sun_brings_its_irradiance():
    # A white matt tile reflects E cos(t) / pi.
    slanted = Sun((0, 1, -1), (2.0, 2.0, 2.0))
    assert radiance_below(slanted) == pytest.approx(2 * np.sqrt(0.5) / np.pi, rel=0.01)


def test_a_bulb_far_away_follows_the_inverse_square():
    near = radiance_below(Bulb((0.8, 0, 2), 0.05, (100, 100, 100)))
    far = radiance_below(Bulb((1.6, 0, 4), 0.05, (100, 100, 100)))
    assert near / far == pytest.approx(4, rel=0.05)


def test_a_panel_shines_towards_its_target_only():
    there = radiance_below(Panel((0.5, 0, 2), (0, 0, 0), 0.2, 0.3, (10, 10, 10)))
    distance, cosine = np.hypot(0.5, 2), 2 / np.hypot(0.5, 2)
    irradiance = 10 * 0.2 * 0.3 * cosine / distance**2  # the panel itself faces the tile
    assert there == pytest.approx(irradiance / np.pi, rel=0.05)
    away = Panel((0.5, 0, 2), (1, 0, 4), 0.2, 0.3, (10, 10, 10))
    assert radiance_below(away) == pytest.approx(0, abs=1e-6)


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
