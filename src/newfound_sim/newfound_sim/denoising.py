# SPDX-License-Identifier: Apache-2.0
"""Denoisers for renderings of few samples: `denoise` and, for interiors, `smooth_light`."""

from __future__ import annotations

import cv2
import numpy as np

RADIUS = 2  # pixels, of `denoise`
_NEIGHBOURS = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], np.uint8)
STEPS = (1, 2, 4)  # pixels between the taps of each pass of `smooth_light`
_KERNEL = (0.25, 0.5, 0.25)


def denoise(rgb: np.ndarray, normals: np.ndarray, surfaces: np.ndarray) -> np.ndarray:
    """Average neighbours of the same surface, a similar orientation and a similar brightness.

    rgb is linear light [H, W, 3]; normals [H, W, 3]; surfaces [H, W] numbers what is seen.
    A joint bilateral filter over 5x5 pixels, after single bright outliers are clamped.
    """
    clamped = np.minimum(rgb, 1.3 * cv2.dilate(rgb, _NEIGHBOURS))
    tone = np.sqrt(np.maximum(clamped, 0)).mean(axis=2)  # noise is about even in this scale
    coarse = cv2.GaussianBlur(tone, (3, 3), 0.8)
    total = np.zeros_like(clamped)
    weights = np.zeros(tone.shape, np.float32)
    padded = [_pad(a) for a in (clamped, normals, surfaces, coarse)]
    height, width = tone.shape
    for dy in range(2 * RADIUS + 1):
        for dx in range(2 * RADIUS + 1):
            window = (slice(dy, dy + height), slice(dx, dx + width))
            colour, normal, surface, brightness = (a[window] for a in padded)
            alike = np.exp(-(((brightness - coarse) / (0.04 + 0.12 * coarse)) ** 2))
            facing = np.clip(np.einsum("hwc,hwc->hw", normal, normals), 0, 1) ** 16
            near = np.exp(-((dy - RADIUS) ** 2 + (dx - RADIUS) ** 2) / 4.0)
            weight = (near * alike * facing * (surface == surfaces)).astype(np.float32)
            total += weight[..., None] * colour
            weights += weight
    return np.where(weights[..., None] > 1e-4, total / np.maximum(weights, 1e-4)[..., None], rgb)


def _pad(image: np.ndarray) -> np.ndarray:
    return cv2.copyMakeBorder(image, RADIUS, RADIUS, RADIUS, RADIUS, cv2.BORDER_REFLECT_101)


def smooth_light(rgb: np.ndarray, albedo: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Average the light on neighbouring points of one plane, with the texture divided out.

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
