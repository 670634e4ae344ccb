# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.depth_geometry import inverse_depth, measure_surfaces, opening
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
        row, left, right = np.array([120]), np.array([150]), np.array([170])
        turn, way = opening(surfaces, row, left, row, right)
        assert np.sign(turn[0]) == sign
        assert abs(way[2, 0]) < 5e-3
