# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import trimesh

from newfound_sim.lights import Dome
from newfound_sim.materials import Material, Texture, linear, smooth_noise, speckle, stripes, wood
from newfound_sim.rendering import Part, View, render

FROM_ABOVE = View((0, 0, 1), (0, 0, 0), 16, 16, fov_degrees=20, up=(0, 1, 0))


def seen(material):
    tile = trimesh.creation.box((1, 1, 0.1)).apply_translation((0, 0, -0.05))
    frame = render([Part(tile, material)], [Dome((1, 1, 1))], FROM_ABOVE, samples=32)
    return frame.rgb


def test_srgb_becomes_linear_light_as_the_standard_says():
    np.testing.assert_allclose(linear((0.0, 0.04, 1.0)), (0, 0.04 / 12.92, 1))
    assert linear((0.5, 0.5, 0.5))[0] == pytest.approx(0.214041, abs=1e-6)


def test_a_texture_lies_on_the_surface_with_its_colours():
    picture = np.zeros((8, 8, 3), np.uint8)
    picture[:, :4] = (255, 0, 0)
    picture[:, 4:] = (0, 0, 255)
    stripes = seen(Material("diffuse", texture=Texture(picture, repeat=2.0)))
    # Red where x is from 0 to 1, blue from -1 to 0; the camera has x to the right.
    assert stripes[8, 12, 0] > 0.8
    assert stripes[8, 12, 2] < 0.2
    assert stripes[8, 3, 2] > 0.8


def test_metal_reflects_the_dome_in_its_own_colour():
    gold = seen(Material("metal", (1.0, 0.8, 0.2), 0.1))[4:12, 4:12].mean(axis=(0, 1))
    np.testing.assert_allclose(gold, linear((1.0, 0.8, 0.2)), rtol=0.15)


def test_an_emitter_shines_with_its_radiance():
    lamp = seen(Material("emitter", (1.0, 0.5, 0.0), radiance=3.0))[8, 8]
    np.testing.assert_allclose(lamp, 3 * linear((1.0, 0.5, 0.0)), rtol=1e-3)


def test_glass_lets_most_light_through():
    tile = trimesh.creation.box((1, 1, 0.01))
    behind = Part(trimesh.creation.box((1, 1, 0.1)).apply_translation((0, 0, -0.5)), Material())
    pane = Part(tile, Material("glass", (1.0, 1.0, 1.0)), 1, "pane")
    with_pane = render([behind, pane], [Dome((1, 1, 1))], FROM_ABOVE, samples=64)
    without = render([behind], [Dome((1, 1, 1))], FROM_ABOVE, samples=64)
    assert (with_pane.instances == 1).all()  # the mask is of the glass
    assert with_pane.rgb.mean() == pytest.approx(without.rgb.mean(), rel=0.25)


def test_wood_varies_more_across_the_grain_than_along_it():
    picture = wood(np.random.default_rng(0), (0.9, 0.7, 0.5), (0.4, 0.2, 0.1)).astype(float)
    along = np.abs(np.diff(picture, axis=1)).mean()
    across = np.abs(np.diff(picture, axis=0)).mean()
    assert across > 2 * along


def test_noise_repeats_without_a_seam():
    noise = smooth_noise(np.random.default_rng(1), 64, 64, (4, 4))
    inside = np.abs(np.diff(noise, axis=0)).max()
    assert np.abs(noise[0] - noise[-1]).max() <= 1.5 * inside


def test_speckle_stays_near_its_colour():
    picture = speckle(np.random.default_rng(2), (0.8, 0.5, 0.2), 0.05) / 255
    np.testing.assert_allclose(picture.mean(axis=(0, 1)), (0.8, 0.5, 0.2), atol=0.02)


def test_stripes_are_equal():
    picture = stripes([(0, 0, 0), (1, 1, 1)], 10)
    assert (picture[:5] == 0).all()
    assert (picture[5:] == 255).all()
