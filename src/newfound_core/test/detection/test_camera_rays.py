# SPDX-License-Identifier: Apache-2.0
import cv2
import numpy as np
import pytest

from newfound_core.detection.camera_rays import Calibration
from newfound_core.errors import ConfigError

PLUMB_BOB = (-0.28, 0.09, 0.001, -0.0007, -0.01)
RATIONAL = (0.5, -2.8, 0.0005, -0.0003, 1.6, 0.4, -2.6, 1.5)
FISHEYE = (-0.02, 0.01, -0.005, 0.001)


def calibration(model="", distortion=()):
    return Calibration(520 / 640, 524 / 480, 315.5 / 640, 242.5 / 480, model, distortion)


@pytest.mark.parametrize(
    ("model", "distortion"), [("plumb_bob", PLUMB_BOB), ("rational_polynomial", RATIONAL)]
)
def test_rays_that_opencv_projects_come_back_to_their_pixels(model, distortion):
    x, y = calibration(model, distortion).rays(480, 640)
    points = np.stack([x, y, np.ones_like(x)], -1).reshape(-1, 3).astype(np.float64)
    matrix = np.array([[520, 0, 315], [0, 524, 242], [0, 0, 1.0]])
    seen, _ = cv2.projectPoints(points, np.zeros(3), np.zeros(3), matrix, np.array(distortion))
    v, u = np.mgrid[:480, :640]
    np.testing.assert_allclose(seen[:, 0], np.stack([u, v], -1).reshape(-1, 2), atol=2e-3)


def test_rays_of_a_fisheye_come_back_to_their_pixels():
    x, y = calibration("equidistant", FISHEYE).rays(480, 640)
    points = np.stack([x, y, np.ones_like(x)], -1).reshape(1, -1, 3).astype(np.float64)
    matrix = np.array([[520, 0, 315], [0, 524, 242], [0, 0, 1.0]])
    zero = np.zeros(3)
    seen, _ = cv2.fisheye.projectPoints(points, zero, zero, matrix, np.array(FISHEYE))
    v, u = np.mgrid[:480, :640]
    np.testing.assert_allclose(seen[0], np.stack([u, v], -1).reshape(-1, 2), atol=2e-3)


def test_a_calibration_holds_at_another_resolution():
    large, small = calibration().rays(480, 640), calibration().rays(240, 320)
    blocks = large.reshape(2, 240, 2, 320, 2).mean((2, 4))
    np.testing.assert_allclose(small, blocks, atol=1e-6)


def test_pixels_that_no_ray_explains_have_none():
    # With so strong a barrel distortion nothing is shown farther out than x' = 0.38.
    rays = calibration("plumb_bob", (-1.0, 0.0, 0.0, 0.0)).rays(480, 640)
    assert np.isnan(rays[:, 0, 0]).all()
    assert np.isfinite(rays[:, 242, 315]).all()


@pytest.mark.parametrize(
    ("model", "distortion", "message"),
    [("barrel", (0.1,), "not known"), ("plumb_bob", (0.1, 0.2), "5 coefficients, got 2")],
)
def test_a_distortion_that_is_not_understood_is_an_error(model, distortion, message):
    with pytest.raises(ConfigError, match=message):
        calibration(model, distortion)
