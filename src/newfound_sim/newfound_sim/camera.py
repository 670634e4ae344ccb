# SPDX-License-Identifier: Apache-2.0
"""Camera models: convert linear light to the 8-bit image of a given camera."""

from dataclasses import dataclass

import cv2
import numpy as np

from newfound_sim.errors import SimulationError

MID_GREY = 0.18  # target of automatic exposure, in linear light


@dataclass(frozen=True)
class CameraModel:
    """Image processing of a camera. Lengths are fractions of the image width."""

    fov_degrees: float = 60.0
    exposure: float = 1.0
    auto_exposure: float = 0.0  # 0: fixed; 1: every picture ends equally bright
    white_balance: tuple[float, float, float] = (1.0, 1.0, 1.0)  # gains of red, green, blue
    saturation: float = 1.0
    contrast: float = 0.0  # strength of an S-curve on the tones
    black: float = 0.0  # tone of the darkest pixel: flare, a lifted black
    vignetting: float = 0.0  # light lost in the corners
    blur: float = 0.0  # sigma of the lens
    sharpening: float = 0.0
    shot_noise: float = 0.0  # sigma at full light, falls with the root of light
    read_noise: float = 0.0  # sigma in the dark
    jpeg_quality: int = 95

    def __post_init__(self) -> None:
        if not 1 <= self.jpeg_quality <= 100:
            raise SimulationError(f"jpeg_quality must be in 1..100, got {self.jpeg_quality}")
        if not 0 <= self.auto_exposure <= 1:
            raise SimulationError(f"auto_exposure must be in [0, 1], got {self.auto_exposure}")


IDEAL = CameraModel()
CAMERAS = {
    # A depth camera's colour sensor: soft, noisy, cool and pale.
    "kinect": CameraModel(
        fov_degrees=57.0,
        exposure=1.0,
        auto_exposure=0.6,
        white_balance=(0.86, 1.0, 1.22),
        saturation=0.68,
        contrast=0.05,
        black=0.05,
        vignetting=0.08,
        blur=0.0024,
        shot_noise=0.045,
        read_noise=0.012,
        jpeg_quality=92,
    ),
    # A cheap webcam: wide, sharpened, contrasty, warm, dark corners, hard compression.
    "webcam": CameraModel(
        fov_degrees=70.0,
        exposure=1.05,
        auto_exposure=0.45,
        white_balance=(1.1, 1.0, 0.9),
        saturation=1.3,
        contrast=0.55,
        vignetting=0.45,
        blur=0.0008,
        sharpening=0.9,
        shot_noise=0.018,
        read_noise=0.004,
        jpeg_quality=42,
    ),
}


def develop(light: np.ndarray, camera: CameraModel, seed: int) -> np.ndarray:
    """Turn linear light [H, W, 3] into sRGB uint8; the seed fixes the sensor's noise."""
    rng = np.random.default_rng(seed)
    signal = _expose(light.astype(np.float32), camera)
    signal = _lens(signal, camera) * np.array(camera.white_balance, np.float32)
    noise = np.sqrt(camera.shot_noise**2 * np.clip(signal, 0, 1) + camera.read_noise**2)
    signal += noise * rng.standard_normal(signal.shape, dtype=np.float32)
    picture = _tones(np.clip(signal, 0, 1), camera)
    return compress(np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8), camera.jpeg_quality)


def compress(rgb: np.ndarray, quality: int) -> np.ndarray:
    """Encode to JPEG of this quality and decode again."""
    _, coded = cv2.imencode(".jpg", rgb[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    return np.ascontiguousarray(cv2.imdecode(coded, cv2.IMREAD_COLOR)[..., ::-1])


def _expose(light: np.ndarray, camera: CameraModel) -> np.ndarray:
    # The geometric mean is not pulled by a lamp in the picture.
    mean = float(np.exp(np.log(light.mean(axis=2) + 1e-4).mean()))
    return light * camera.exposure * (MID_GREY / mean) ** camera.auto_exposure


def _lens(light: np.ndarray, camera: CameraModel) -> np.ndarray:
    height, width = light.shape[:2]
    y, x = np.mgrid[:height, :width].astype(np.float32)
    from_centre = ((x - width / 2) ** 2 + (y - height / 2) ** 2) / (width**2 + height**2) * 4
    shaded = light * (1 - camera.vignetting * from_centre)[..., None]
    sigma = camera.blur * width
    return cv2.GaussianBlur(shaded, (0, 0), sigma) if sigma > 0.05 else shaded


def _tones(signal: np.ndarray, camera: CameraModel) -> np.ndarray:
    """Gamma, S-curve, black level, saturation and sharpening, as a camera does."""
    tone = signal ** (1 / 2.2)
    tone = tone + camera.contrast * (tone * tone * (3 - 2 * tone) - tone)
    tone = camera.black + (1 - camera.black) * tone
    grey = tone.mean(axis=2, keepdims=True)
    tone = grey + camera.saturation * (tone - grey)
    if camera.sharpening:
        soft = cv2.GaussianBlur(tone, (0, 0), 1.0)
        tone = tone + camera.sharpening * (tone - soft)
    return tone
