# SPDX-License-Identifier: Apache-2.0
"""A light denoiser for pictures of few samples: what remains looks like a camera's own noise."""

import cv2
import numpy as np

RADIUS = 2
_NEIGHBOURS = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], np.uint8)


def denoise(rgb: np.ndarray, normals: np.ndarray, surfaces: np.ndarray) -> np.ndarray:
    """Average neighbours that lie on the same surface, face the same way and look alike.

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
            colour, normal, surface, look = (a[window] for a in padded)
            alike = np.exp(-(((look - coarse) / (0.04 + 0.12 * coarse)) ** 2))
            facing = np.clip(np.einsum("hwc,hwc->hw", normal, normals), 0, 1) ** 16
            near = np.exp(-((dy - RADIUS) ** 2 + (dx - RADIUS) ** 2) / 4.0)
            weight = (near * alike * facing * (surface == surfaces)).astype(np.float32)
            total += weight[..., None] * colour
            weights += weight
    return np.where(weights[..., None] > 1e-4, total / np.maximum(weights, 1e-4)[..., None], rgb)


def _pad(image: np.ndarray) -> np.ndarray:
    return cv2.copyMakeBorder(image, RADIUS, RADIUS, RADIUS, RADIUS, cv2.BORDER_REFLECT_101)
