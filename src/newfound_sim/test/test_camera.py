# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from newfound_sim.camera import CAMERAS, IDEAL, CameraModel, compress, develop
from newfound_sim.errors import SimulationError

GREY = np.full((48, 64, 3), 0.18, np.float32)


def test_the_ideal_camera_applies_gamma_and_nothing_else():
    expected = round(0.18 ** (1 / 2.2) * 255)
    assert abs(develop(GREY, IDEAL, 0).astype(int) - expected).max() <= 1


def test_noise_belongs_to_the_seed():
    kinect = CAMERAS["kinect"]
    np.testing.assert_array_equal(develop(GREY, kinect, 1), develop(GREY, kinect, 1))
    assert (develop(GREY, kinect, 1) != develop(GREY, kinect, 2)).any()


def test_full_automatic_exposure_makes_dark_and_bright_scenes_equal():
    camera = CameraModel(auto_exposure=1.0)
    dark, bright = develop(GREY * 0.2, camera, 0), develop(GREY * 3, camera, 0)
    assert abs(dark.mean() - bright.mean()) < 2


def test_vignetting_darkens_the_corners_only():
    picture = develop(GREY, CameraModel(vignetting=0.5), 0).astype(int)
    assert picture[24, 32].mean() > picture[0, 0].mean() + 20
    assert abs(picture[24, 32] - develop(GREY, IDEAL, 0)[24, 32].astype(int)).max() <= 2


def test_blur_keeps_the_light_and_spreads_an_edge():
    edge = np.zeros((32, 64, 3), np.float32)
    edge[:, 32:] = 0.5
    sharp = develop(edge, IDEAL, 0)[16].mean(axis=1)
    soft = develop(edge, CameraModel(blur=0.03), 0)[16].mean(axis=1)
    between = lambda row: ((row > 20) & (row < 170)).sum()  # noqa: E731
    assert between(soft) > between(sharp) + 2


def test_the_kinect_is_paler_and_cooler_than_the_webcam():
    red = np.zeros((32, 32, 3), np.float32) + np.array([0.3, 0.1, 0.1], np.float32)
    spread = {n: np.ptp(develop(red, CAMERAS[n], 0).mean(axis=(0, 1))) for n in CAMERAS}
    assert spread["kinect"] < 0.7 * spread["webcam"]
    warmth = {}
    for name in CAMERAS:
        r, _, b = develop(GREY, CAMERAS[name], 0).mean(axis=(0, 1))
        warmth[name] = r - b
    assert warmth["kinect"] < 0 < warmth["webcam"]


def test_compression_artefacts_grow_as_quality_falls():
    picture = np.random.default_rng(0).integers(0, 255, (32, 32, 3)).astype(np.uint8)
    error = [np.abs(compress(picture, q).astype(int) - picture).mean() for q in (95, 60, 20)]
    assert error[0] < error[1] < error[2]


@pytest.mark.parametrize("wrong", [{"jpeg_quality": 0}, {"auto_exposure": 1.5}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(SimulationError, match=next(iter(wrong))):
        CameraModel(**wrong)
