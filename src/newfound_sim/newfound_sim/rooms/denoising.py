# SPDX-License-Identifier: Apache-2.0
"""A denoiser for interiors: smooths the light, not the surfaces it falls on."""

from __future__ import annotations

import cv2
import numpy as np

STEPS = (1, 2, 4)  # pixels between the taps of each pass
_KERNEL = (0.25, 0.5, 0.25)


def smooth_light(rgb: np.ndarray, albedo: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Average the light on neighbouring points of one plane, with the texture taken out.

    All arrays are [H, W, 3]: linear colour, the surfaces' own colour, metres. Three passes of
    a 3x3 filter with growing holes (à trous); a neighbour counts if it faces the same way,
    lies in the same plane and is about as bright.
    """
    strongest = albedo.max(axis=2, keepdims=True)
    # Mirrors and glass have no colour of their own, lamps shine: leave their picture as it is.
    own = np.where((strongest > 0.003) & (strongest < 1.1), albedo + 0.01, 1.0)
    light = _without_sparks(rgb / own)
    normal = normals(position)
    for step in STEPS:
        light = _one_pass(light, normal, position, step)
    return light * own


def normals(position: np.ndarray) -> np.ndarray:
    """Unit normals of the surfaces through a picture of points [H, W, 3].

    Differences are taken on the side where the surface goes on, not across an edge.
    """
    slopes = []
    for axis in (1, 0):
        step = np.diff(position, axis=axis)
        first, last = ((0, 0), (1, 0)), ((0, 0), (0, 1))
        if axis == 0:
            first, last = first[::-1], last[::-1]
        before = np.pad(step, (*first, (0, 0)), mode="edge")
        after = np.pad(step, (*last, (0, 0)), mode="edge")
        shorter = (before**2).sum(2, keepdims=True) < (after**2).sum(2, keepdims=True)
        slopes.append(np.where(shorter, before, after))
    normal = np.cross(slopes[0], slopes[1])
    return normal / np.maximum(np.linalg.norm(normal, axis=2, keepdims=True), 1e-12)


def _without_sparks(light: np.ndarray) -> np.ndarray:
    """Clamp what outshines its surroundings: stray paths, and edges thinner than a pixel."""
    around = cv2.medianBlur(light.astype(np.float32), 5)
    return np.minimum(light, 1.6 * around + 0.02)


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
