# SPDX-License-Identifier: Apache-2.0
"""Procedural pictures for surfaces. Grain runs along the first axis of the surface."""

import cv2
import numpy as np

from newfound_sim.materials import Colour


def smooth_noise(rng: np.random.Generator, height: int, width: int, cells: tuple) -> np.ndarray:
    """Noise in [0, 1] that repeats without a seam; `cells` says how many bumps down and across."""
    coarse = rng.random(cells, dtype=np.float32)
    wrapped = np.pad(coarse, 2, mode="wrap")
    scale = height / cells[0], width / cells[1]
    size = (round(wrapped.shape[1] * scale[1]), round(wrapped.shape[0] * scale[0]))
    large = cv2.resize(wrapped, size, interpolation=cv2.INTER_CUBIC)
    top, left = round(2 * scale[0]), round(2 * scale[1])
    return np.clip(large[top : top + height, left : left + width], 0, 1)


def wood(
    rng: np.random.Generator, light: Colour, dark: Colour, size: int = 256, rings: float = 9.0
) -> np.ndarray:
    """Wooden grain along the rows, uint8 sRGB."""
    wave = smooth_noise(rng, size, size, (3, 2)) * 1.3
    fibre = smooth_noise(rng, size, size, (size // 3, 6))
    y = np.linspace(0, 1, size, endpoint=False)[:, None]
    grain = 0.5 + 0.5 * np.sin(2 * np.pi * (np.rint(rings) * y + wave))
    mix = np.clip(0.55 * grain + 0.5 * fibre - 0.1, 0, 1)[..., None]
    return _bytes(np.asarray(light) * (1 - mix) + np.asarray(dark) * mix)


def speckle(
    rng: np.random.Generator, base: Colour, contrast: float = 0.06, size: int = 128
) -> np.ndarray:
    """A plain colour with slight blotches: paint, laminate, cardboard, plaster."""
    blotch = smooth_noise(rng, size, size, (8, 8)) + smooth_noise(rng, size, size, (40, 40))
    return _bytes(np.asarray(base) + contrast * (blotch[..., None] - 1))


def stripes(colours: list[Colour], size: int = 128) -> np.ndarray:
    """Equal stripes that run along the rows."""
    rows = np.arange(size) * len(colours) // size
    return _bytes(np.repeat(np.asarray(colours)[rows][:, None], size, axis=1))


def _bytes(colour: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(colour, 0, 1) * 255).astype(np.uint8)
