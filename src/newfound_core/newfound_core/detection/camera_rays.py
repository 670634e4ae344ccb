# SPDX-License-Identifier: Apache-2.0
"""Rays of a calibrated camera: where every pixel looks, lens distortion included.

The distortion models are those of sensor_msgs/CameraInfo, with the equations of
https://docs.opencv.org/4.x/d9/d0c/group__calib3d.html; k and p are its coefficients d:

    plumb_bob, rational_polynomial:  r^2 = x^2 + y^2
        x' = x (1 + k1 r^2 + k2 r^4 + k3 r^6) / (1 + k4 r^2 + k5 r^4 + k6 r^6)
             + 2 p1 x y + p2 (r^2 + 2 x^2),                        y' likewise
    equidistant:  t = atan(r),  x' = x t (1 + k1 t^2 + k2 t^4 + k3 t^6 + k4 t^8) / r

A pixel shows (x', y'); its ray is (x, y, 1), found by Newton's method.
"""

from dataclasses import dataclass

import numpy as np

from newfound_core.errors import ConfigError

_COUNTS = {"": (0,), "plumb_bob": (0, 4, 5), "rational_polynomial": (8,), "equidistant": (4,)}
_STEPS, _CLOSE = 8, 1e-5  # of Newton's method, and the error at which a ray is found
_DELTA = 1e-5


@dataclass(frozen=True)
class Calibration:
    """Intrinsic parameters, for any resolution of the same view."""

    focal_x: float  # in widths of the image
    focal_y: float  # in heights
    centre_x: float  # of the width, from the left edge of the first pixel
    centre_y: float  # of the height
    model: str = ""  # distortion model; empty: none
    distortion: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not (self.focal_x > 0 and self.focal_y > 0):
            raise ConfigError(
                f"focal lengths must be positive, got {self.focal_x} and {self.focal_y}"
            )
        if self.model not in _COUNTS:
            raise ConfigError(
                f"the distortion model {self.model!r} is not known; it is one of "
                f"{', '.join(name for name in _COUNTS if name)}"
            )
        if len(self.distortion) not in _COUNTS[self.model]:
            raise ConfigError(
                f"{self.model or 'no distortion'} has {_COUNTS[self.model][-1]} coefficients, got "
                f"{len(self.distortion)}"
            )

    def rays(self, height: int, width: int) -> np.ndarray:
        """x and y of the rays (x, y, 1) of all pixels, float32 [2, H, W].

        NaN where the lens shows nothing that the model could explain.
        """
        x = ((np.arange(width) + 0.5) / width - self.centre_x) / self.focal_x
        y = ((np.arange(height) + 0.5) / height - self.centre_y) / self.focal_y
        seen = np.stack(np.meshgrid(x, y))
        if any(self.distortion):
            seen = self._undistort(seen)
        return seen.astype(np.float32)

    def project(self, points: np.ndarray, height: int, width: int) -> np.ndarray:
        """Column and row of points [N, 3] before the camera, in pixels from the image's edge."""
        x, y = self.distort(points[:, 0] / points[:, 2], points[:, 1] / points[:, 2])
        return np.stack(
            [
                (x * self.focal_x + self.centre_x) * width,
                (y * self.focal_y + self.centre_y) * height,
            ],
            1,
        )

    def distort(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Where the lens shows the rays (x, y, 1), at unit distance, [2, ...]."""
        if not any(self.distortion):
            return np.stack([x, y])
        square = x * x + y * y
        if self.model == "equidistant":
            radius = np.maximum(np.sqrt(square), 1e-12)
            angle = np.arctan(radius)
            powers = angle ** np.array([2, 4, 6, 8]).reshape(4, *[1] * angle.ndim)
            scale = angle * (1 + np.tensordot(self.distortion, powers, 1)) / radius
            return np.stack([x * scale, y * scale])
        k1, k2, p1, p2, k3, k4, k5, k6 = (*self.distortion, *[0.0] * 8)[:8]
        scale = 1 + square * (k1 + square * (k2 + square * k3))
        scale = scale / (1 + square * (k4 + square * (k5 + square * k6)))
        return np.stack(
            [
                x * scale + 2 * p1 * x * y + p2 * (square + 2 * x * x),
                y * scale + p1 * (square + 2 * y * y) + 2 * p2 * x * y,
            ]
        )

    def _undistort(self, seen: np.ndarray) -> np.ndarray:
        x, y = seen.copy()
        with np.errstate(all="ignore"):
            for _ in range(_STEPS):
                error = self.distort(x, y) - seen
                (a, c), (b, d) = self._slopes(x, y)
                determinant = a * d - b * c
                x = x - (d * error[0] - b * error[1]) / determinant
                y = y - (a * error[1] - c * error[0]) / determinant
            shown = self.distort(x, y)
            (a, c), (b, d) = self._slopes(x, y)
            # Polynomials fold the view over far out: what is mirrored there is no ray.
            upright = (a * d > b * c) & (shown[0] * x + shown[1] * y >= 0)
            found = (np.abs(shown - seen).max(0) < _CLOSE) & upright
        return np.where(found, np.stack([x, y]), np.nan)

    def _slopes(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Change of where the lens shows a ray, with its x and with its y."""
        return (
            (self.distort(x + _DELTA, y) - self.distort(x - _DELTA, y)) / (2 * _DELTA),
            (self.distort(x, y + _DELTA) - self.distort(x, y - _DELTA)) / (2 * _DELTA),
        )
