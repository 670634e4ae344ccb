# SPDX-License-Identifier: Apache-2.0
"""Fields that are read off an image, so that a domain is known with nothing written down.

They are those of `train-predictive --measured image`; stem fields (stem_fields.py) tell more.
All are measured on the image at the network's size, so that the resolution of a camera does not
matter. "border" is the outer eighth of the image on each side, which shows the background. What a
camera reports of an image, as its exposure, can be a measured field beside these; see `Field`.
"""

from collections.abc import Sequence

import cv2
import numpy as np

from newfound_core.predictive.metadata import Field

_DARK = 1 / 255  # added to luminance before the logarithm
_BORDER = 8  # the border is one part of this many

NAMES = (
    "luminance",  # mean of log luminance
    "contrast",  # its standard deviation
    "red_blue",  # log of the ratio of mean red to mean blue
    "saturation",  # mean of (max - min) / max over red, green and blue
    "sharpness",  # log of the mean squared Laplacian of luminance
    "border_luminance",
    "border_red_blue",
    "border_saturation",
    "shading",  # log luminance of the middle minus that of the border
)


def measured_fields() -> tuple[Field, ...]:
    """The fields of a schema; their ranges are those of the domains it is fitted to."""
    return tuple(Field(name, "number", measured=True) for name in NAMES)


def measure(image: np.ndarray) -> dict[str, float]:
    """All fields of one image, uint8 [H, W, 3] RGB."""
    pixels = image.astype(np.float32) / 255
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    logarithm = cv2.log(grey + _DARK)
    saturation = np.ascontiguousarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)[..., 1])
    mean, deviation = (float(value[0, 0]) for value in cv2.meanStdDev(logarithm))
    around = _border_mean(logarithm)[0]
    values = (
        mean,
        deviation,
        _red_blue(cv2.mean(pixels)),
        cv2.mean(saturation)[0],
        np.log(np.square(cv2.Laplacian(grey, cv2.CV_32F)).mean() + 1e-6),
        around,
        _red_blue(_border_mean(pixels)),
        _border_mean(saturation)[0],
        cv2.mean(_middle(logarithm))[0] - around,
    )
    return {name: float(value) for name, value in zip(NAMES, values, strict=True)}


def average(measurements: Sequence[dict[str, float]]) -> dict[str, float]:
    """The mean of each field that all of several images have."""
    names = [name for name in measurements[0] if all(name in m for m in measurements)]
    return {name: float(np.mean([m[name] for m in measurements])) for name in names}


def _red_blue(means: Sequence[float] | np.ndarray) -> float:
    return float(np.log((means[0] + _DARK) / (means[2] + _DARK)))


def _middle(values: np.ndarray) -> np.ndarray:
    """All but the border; of an image that is all border, everything."""
    height, width = values.shape[:2]
    y, x = max(1, height // _BORDER), max(1, width // _BORDER)
    return values[y : height - y, x : width - x] if min(height, width) > 2 else values


def _border_mean(values: np.ndarray) -> np.ndarray:
    """The mean of each channel over the border."""
    inside, area = _middle(values), values.shape[0] * values.shape[1]
    middle = inside.shape[0] * inside.shape[1]
    if middle == area:
        return np.array(cv2.mean(values))
    whole = np.array(cv2.mean(values)) * area
    return (whole - np.array(cv2.mean(inside)) * middle) / (area - middle)
