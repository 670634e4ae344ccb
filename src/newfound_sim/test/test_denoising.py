# SPDX-License-Identifier: Apache-2.0
import numpy as np

from newfound_sim.denoising import denoise, normals, smooth_light


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


def wall(size=48):
    """Points of a plane y = 2 seen from the front, one centimetre to a pixel."""
    rows, columns = np.mgrid[:size, :size]
    return np.stack([columns * 0.01, np.full((size, size), 2.0), -rows * 0.01], axis=2)


def test_noise_falls_and_the_texture_stays():
    rng = np.random.default_rng(0)
    stripes = np.where(np.arange(48) % 8 < 4, 0.7, 0.2)[None, :, None] * np.ones((48, 48, 3))
    noisy = stripes * rng.gamma(6, 1 / 6, (48, 48, 1))
    smooth = smooth_light(noisy.astype(np.float32), stripes, wall())
    assert np.abs(smooth - stripes).mean() < 0.4 * np.abs(noisy - stripes).mean()


def test_light_does_not_leak_across_an_edge_in_space():
    points = wall()
    points[:, 24:, 1] += 0.5  # the right half is another wall, further away
    light = np.ones((48, 48, 3), np.float32)
    light[:, 24:] = 0.9
    smooth = smooth_light(light, np.full((48, 48, 3), 0.5), points)
    np.testing.assert_allclose(smooth, light, atol=1e-5)


def test_normals_of_a_slanted_plane_are_those_of_its_equation():
    points = wall()
    points[..., 1] += 0.5 * points[..., 0]  # y = 2 + x / 2
    expected = np.array([0.5, -1.0, 0.0]) / np.sqrt(1.25)
    found = normals(points)
    np.testing.assert_allclose(np.abs(found @ expected), 1, atol=1e-9)


def test_normals_next_to_an_edge_belong_to_their_own_side():
    points = wall()
    points[:, 24:, 1] += 0.5
    np.testing.assert_allclose(np.abs(normals(points)[..., 1]), 1, atol=1e-9)
