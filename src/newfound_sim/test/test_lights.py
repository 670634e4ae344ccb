# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import trimesh
from newfound_sim.lights import Bulb, Panel, Sun
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
