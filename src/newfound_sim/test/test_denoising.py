# SPDX-License-Identifier: Apache-2.0
import numpy as np
from newfound_sim.denoising import denoise


def flat(value):
    return np.full((40, 40, 3), value, np.float32)


def test_noise_on_one_surface_falls_and_its_mean_stays():
    rng = np.random.default_rng(0)
    noisy = (flat(0.4) + rng.normal(0, 0.03, (40, 40, 3))).astype(np.float32)
    normals = np.zeros((40, 40, 3), np.float32) + np.array([0, 0, 1], np.float32)
    clean = denoise(noisy, normals, np.ones((40, 40), np.float32))
    assert clean.std() < 0.45 * noisy.std()
    assert abs(clean.mean() - noisy.mean()) < 0.005


def test_light_does_not_leak_between_surfaces():
    rgb, surfaces = flat(0.2), np.ones((40, 40), np.float32)
    rgb[:, 20:], surfaces[:, 20:] = 0.21, 2
    normals = np.zeros((40, 40, 3), np.float32) + np.array([0, 0, 1], np.float32)
    clean = denoise(rgb, normals, surfaces)
    np.testing.assert_allclose(clean, rgb, atol=1e-5)


def test_a_single_bright_outlier_is_clamped():
    rgb = flat(0.2)
    rgb[20, 20] = 50
    normals = np.zeros((40, 40, 3), np.float32) + np.array([0, 0, 1], np.float32)
    assert denoise(rgb, normals, np.ones((40, 40), np.float32)).max() < 0.3
