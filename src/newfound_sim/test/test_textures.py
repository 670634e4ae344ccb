# SPDX-License-Identifier: Apache-2.0
import numpy as np
from newfound_sim.textures import smooth_noise, speckle, stripes, wood


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
