# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.depth_geometry import (
    _reduce,
    dot,
    inverse_depth,
    masked,
    measure_surfaces,
    opening,
    paste,
)
from newfound_core.detection.proposals import CameraView

CAMERA = CameraView(focal_x=460 / 640, focal_y=460 / 640)
NORMAL = np.array([0.05, 0.75, 0.65]) / np.linalg.norm([0.05, 0.75, 0.65])  # of the table


def test_normals_of_a_plane_are_its_normal_towards_the_camera(table):
    surfaces = measure_surfaces(table((), ())[0], CAMERA)
    assert surfaces.inverse.shape == (240, 320)
    inside = surfaces.normals[:, 100:-10, 10:-10].reshape(3, -1).T  # below the table's far end
    np.testing.assert_allclose(inside, np.broadcast_to(-NORMAL, inside.shape), atol=2e-3)


def test_points_lie_on_the_plane_they_were_made_from(table):
    surfaces = measure_surfaces(table((), ())[0], CAMERA)
    points = surfaces.points[:, 100:-10, 10:-10].reshape(3, -1)
    np.testing.assert_allclose(NORMAL @ points, 0.5, atol=2e-3)


@pytest.mark.parametrize("deviation", [0.001, 0.005, 0.02])
def test_noise_is_estimated_from_the_image_alone(table, deviation):
    depth = table((), ())[0]
    noisy = depth + deviation * depth**2 * np.random.default_rng(0).normal(size=depth.shape)
    surfaces = measure_surfaces(np.where(depth > 0, noisy, 0).astype(np.float32), CAMERA)
    true = (surfaces.inverse - measure_surfaces(depth, CAMERA).inverse)[100:-10, 10:-10].std()
    assert true / 2 < surfaces.noise < 2 * true
    assert true < deviation / 2  # averaging and smoothing have removed most of it


def test_a_step_survives_the_smoothing(table):
    depth, _ = table(((200, 200, 400, 300),), (0.1,))
    inverse = measure_surfaces(depth, CAMERA).inverse
    exact = inverse_depth(depth)[::2, ::2]
    assert np.abs(inverse - exact)[100:150, 90:210].max() < 0.02 * exact[100:150].max()


def test_small_holes_are_filled_and_large_ones_stay(table):
    depth = table((), ())[0]
    depth[300:304, 300:304] = 0
    depth[400:460, 100:200] = np.nan
    measured = measure_surfaces(depth, CAMERA).measured
    assert measured[150:152, 150:152].all()
    assert not measured[210:220, 60:90].any()


def test_normals_open_at_a_ridge_and_close_in_a_valley():
    x = np.abs(np.arange(640) - 319.5) / 525
    for sign in (1, -1):  # the middle is nearer, then farther away
        depth = np.broadcast_to(1 + sign * 0.5 * x, (480, 640)).astype(np.float32)
        surfaces = measure_surfaces(depth, CameraView())
        left, right = np.array([120 * 320 + 150]), np.array([120 * 320 + 170])
        turn, way = opening(surfaces, left, right)
        assert np.sign(turn[0]) == sign
        assert abs(way[2, 0]) < 5e-3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_what_was_not_measured_has_no_inverse_depth(kind):
    depth = np.array([[0.5, 0, -1, np.nan], [2, np.inf, -np.inf, 4]], kind)
    inverse = inverse_depth(depth)
    assert inverse.dtype == np.float32
    np.testing.assert_array_equal(inverse, [[2, 0, 0, 0], [0.5, 0, 0, 0.25]])


@pytest.mark.parametrize("stride", [2, 3, 4])
def test_a_reduced_pixel_is_the_mean_of_those_of_one_surface(stride):
    rng = np.random.default_rng(stride)
    depth = np.where(rng.random((37, 50)) < 0.5, 1, 2) + rng.normal(0, 1e-3, (37, 50))
    depth = np.where(rng.random((37, 50)) < 0.2, 0, depth).astype(np.float32)
    reduced = _reduce(inverse_depth(depth), stride, 1e-3)
    assert reduced.shape == (37 // stride, 50 // stride)
    for row, column in np.ndindex(*reduced.shape):
        places = [(row * stride + d, column * stride + r)
                  for d in (0, stride // 2) for r in (0, stride // 2)]  # fmt: skip
        w = sorted((1 / float(depth[p]) if depth[p] > 0 else 0.0 for p in places), reverse=True)
        chosen = w[1] or w[0]
        near = [v if abs(v - chosen) < 0.03 * chosen + 3e-3 else chosen for v in w]
        assert reduced[row, column] == pytest.approx(np.mean(near), rel=1e-6)


def test_masks_choose_between_images_as_numpy_does():
    rng = np.random.default_rng(0)
    one, other = rng.random((2, 20, 30)).astype(np.float32)
    mask = rng.random((20, 30)) < 0.5
    np.testing.assert_array_equal(masked(one, mask), np.where(mask, one, 0))
    expected = np.where(mask, one, other)
    paste(one, mask, other)
    np.testing.assert_array_equal(other, expected)


def test_products_over_the_first_axis_broadcast_the_others():
    rng = np.random.default_rng(0)
    vector, vectors, image = rng.random(3), rng.random((3, 4)), rng.random((3, 5, 6))
    np.testing.assert_allclose(dot(vector, image), np.tensordot(vector, image, 1))
    np.testing.assert_allclose(dot(vectors[..., None], image[:, 0]), vectors.T @ image[:, 0])
