# SPDX-License-Identifier: Apache-2.0
"""A denoiser for interiors: smooths the light, not the surfaces it falls on."""

from __future__ import annotations

import cv2
import numpy as np

STEPS = (1, 2, 4)  # pixels between the taps of each pass
_KERNEL = (0.25, 0.5, 0.25)


def smooth_light(
    rgb: np.ndarray, albedo: np.ndarray, normal: np.ndarray, position: np.ndarray
) -> np.ndarray:
    """Average the light on neighbouring points of one plane, with the texture taken out.

    All arrays are [H, W, 3]: linear colour, the surfaces' own colour, unit normals, metres.
    Three passes of a 3x3 filter with growing holes (à trous); a neighbour counts if it faces
    the same way, lies in the same plane and is about as bright.
    """
    # Mirrors, glass and lamps have no colour of their own: leave their picture as it is.
    own = np.where(albedo.max(axis=2, keepdims=True) > 0.01, albedo + 0.02, 1.0)
    light = _without_sparks(rgb / own)
    for step in STEPS:
        light = _one_pass(light, normal, position, step)
    return light * own


def _without_sparks(light: np.ndarray) -> np.ndarray:
    """Clamp single pixels that outshine all their neighbours."""
    ring = np.ones((3, 3), np.uint8)
    ring[1, 1] = 0
    return np.minimum(light, 1.1 * cv2.dilate(light, ring))


def _one_pass(
    light: np.ndarray, normal: np.ndarray, position: np.ndarray, step: int
) -> np.ndarray:
    high, wide = light.shape[:2]
    tone = cv2.GaussianBlur(np.sqrt(np.maximum(light, 0)).mean(axis=2), (3, 3), 0.8)
    stack = np.dstack([light, normal, position, tone]).astype(np.float32)
    padded = cv2.copyMakeBorder(stack, step, step, step, step, cv2.BORDER_REPLICATE)
    total = np.zeros_like(light)
    weights = np.zeros((high, wide, 1), np.float32)
    for row, wy in enumerate(_KERNEL):
        for column, wx in enumerate(_KERNEL):
            near = padded[row * step : row * step + high, column * step : column * step + wide]
            facing = np.einsum("hwc,hwc->hw", near[..., 3:6], normal).clip(0, 1) ** 24
            off_plane = np.einsum("hwc,hwc->hw", near[..., 6:9] - position, normal)
            same_plane = np.exp(-((off_plane / 0.03) ** 2))
            alike = np.exp(-(((near[..., 9] - tone) / (0.05 + 0.25 * tone)) ** 2))
            weight = (wy * wx * facing * same_plane * alike)[..., None]
            total += weight * near[..., :3]
            weights += weight
    return np.where(weights > 1e-5, total / np.maximum(weights, 1e-5), light)
