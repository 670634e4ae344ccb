# SPDX-License-Identifier: Apache-2.0
"""Painted surfaces: wood, tiles, bricks, fabric, as materials with a repeating picture.

Every function is deterministic and cached: the same arguments give the same material object,
so that everything made of it can be rendered as one mesh.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

import cv2
import numpy as np

from newfound_sim.materials import Colour, Kind, Material, Texture

SIZE = 256  # pixels of a texture, each way


@lru_cache(maxsize=512)
def paint(colour: Colour, roughness: float | None = None) -> Material:
    """A plain painted surface; with a roughness it shines."""
    kind: Kind = "diffuse" if roughness is None else "plastic"
    return Material(kind, colour, roughness)


@lru_cache(maxsize=64)
def metal(colour: Colour = (0.75, 0.75, 0.75), roughness: float = 0.35) -> Material:
    """Bare metal."""
    return Material("rough_metal", colour, roughness)


@lru_cache(maxsize=2)
def mirror() -> Material:
    """Silvered glass."""
    return Material("metal", (0.93, 0.94, 0.94), 0.03)


@lru_cache(maxsize=128)
def wood(colour: Colour, seed: int = 0) -> Material:
    """Varnished wood with the grain along the second texture axis."""
    rng = np.random.default_rng(seed)
    grain = _noise(rng, (2, 40)) * 0.5 + _noise(rng, (4, 120)) * 0.5
    return _material(_shade(colour, 1 + 0.12 * grain), 0.9, roughness=0.45)


@lru_cache(maxsize=64)
def planks(colour: Colour, across: int = 8, seed: int = 0) -> Material:
    """Floor boards, two metres to a repeat."""
    rng = np.random.default_rng(seed)
    grain = _noise(rng, (4, 96))
    tone = np.zeros((SIZE, SIZE))
    gap = np.ones((SIZE, SIZE))
    edges = np.linspace(0, SIZE, across + 1).astype(int)
    for left, right in itertools.pairwise(edges):
        cut = int(rng.integers(0, SIZE))
        rows = np.arange(SIZE)
        upper = ((rows - cut) % SIZE) < SIZE // 2
        first, second = rng.normal(0, 0.12, 2)
        tone[:, left:right] = np.where(upper, first, second)[:, None]
        gap[:, left] = 0.45
        gap[[cut, (cut + SIZE // 2) % SIZE], left:right] = 0.5
    return _material(_shade(colour, (1 + tone + 0.07 * grain) * gap), 2.0 * across / 14, 0.4)


@lru_cache(maxsize=64)
def parquet(colour: Colour, seed: int = 0) -> Material:
    """Blocks of four strips laid crosswise, as in old town houses."""
    rng = np.random.default_rng(seed)
    block, strips = SIZE // 4, 4
    image = np.zeros((SIZE, SIZE))
    for row in range(4):
        for column in range(4):
            tones = 1 + np.repeat(rng.normal(0, 0.13, strips), block // strips)
            patch = np.tile(tones[:, None], (1, block))
            patch[:: block // strips] = 0.55
            patch[:, 0] = 0.55
            patch = patch.T if (row + column) % 2 else patch
            image[row * block : (row + 1) * block, column * block : (column + 1) * block] = patch
    return _material(_shade(colour, image + 0.06 * _noise(rng, (64, 64))), 1.4, 0.35)


@lru_cache(maxsize=128)
def tiles(
    colour: Colour,
    second: Colour | None = None,
    *,
    edge: float = 0.2,
    grout: Colour = (0.72, 0.72, 0.7),
    brick: bool = False,
    seed: int = 0,
) -> Material:
    """Glazed tiles of the given edge in metres; a second colour makes a chequerboard."""
    rng = np.random.default_rng(seed)
    columns, rows = (4, 8) if brick else (4, 4)
    image = np.zeros((SIZE, SIZE, 3))
    high, wide = SIZE // rows, SIZE // columns
    for row in range(rows):
        shift = wide // 2 if brick and row % 2 else 0
        for column in range(columns):
            base = second if second is not None and (row + column) % 2 else colour
            tone = 1 + rng.normal(0, 0.035)
            x = (np.arange(wide) + column * wide + shift) % SIZE
            image[row * high : (row + 1) * high, x] = np.asarray(base) * tone
            image[row * high : (row + 1) * high, x[:2]] = grout
        image[row * high : row * high + 2] = grout
    return _material(image, columns * edge, roughness=0.18)


@lru_cache(maxsize=16)
def bricks(colour: Colour, mortar: Colour = (0.72, 0.68, 0.63), seed: int = 0) -> Material:
    """A brick wall, bricks 22 cm by 7 cm."""
    rng = np.random.default_rng(seed)
    image = np.tile(np.asarray(mortar, float), (SIZE, SIZE, 1))
    rows, columns = 12, 4
    high, wide = SIZE / rows, SIZE / columns
    for row in range(rows):
        for column in range(columns):
            x = (np.arange(int(wide) - 4) + int(column * wide + (row % 2) * wide / 2)) % SIZE
            y = slice(int(row * high) + 2, int((row + 1) * high) - 1)
            tint = np.asarray(colour) * (1 + rng.normal(0, 0.16)) + rng.normal(0, 0.02, 3)
            image[y, x] = tint
    image *= 1 + 0.1 * _noise(rng, (80, 80))[..., None]
    return _material(image, 0.95)


@lru_cache(maxsize=64)
def speckled(
    colour: Colour, contrast: float = 0.12, grain: int = 90, repeat: float = 1.0, seed: int = 0
) -> Material:
    """A mottled surface: carpet pile, linoleum, cork, concrete."""
    rng = np.random.default_rng(seed)
    blots = 0.8 * _noise(rng, (grain, grain)) + 0.2 * _noise(rng, (7, 7))
    return _material(_shade(colour, 1 + contrast * blots), repeat)


@lru_cache(maxsize=64)
def terrazzo(colour: Colour, chips: tuple[Colour, ...], seed: int = 0) -> Material:
    """Polished stone floor with chips of other colours."""
    rng = np.random.default_rng(seed)
    image = np.tile(np.asarray(colour, np.float32), (SIZE, SIZE, 1))
    for _ in range(420):
        chip = chips[int(rng.integers(len(chips)))]
        x, y = (int(v) for v in rng.integers(0, SIZE, 2))
        axes = (int(rng.integers(1, 5)), int(rng.integers(1, 4)))
        cv2.ellipse(image, (x, y), axes, float(rng.uniform(0, 180)), 0, 360, chip, -1)
    return _material(image, 0.9, roughness=0.25)


@lru_cache(maxsize=64)
def stripes(colours: tuple[Colour, ...], width: float = 0.1, seed: int = 0) -> Material:
    """Upright stripes: wallpaper, bed linen, curtains."""
    rng = np.random.default_rng(seed)
    band = (np.arange(SIZE) * 2 * len(colours) // SIZE) % len(colours)
    row = np.asarray(colours, float)[band]
    image = np.tile(row, (SIZE, 1, 1)) * (1 + 0.04 * _noise(rng, (90, 90))[..., None])
    return _material(image, 2 * len(colours) * width)


@lru_cache(maxsize=64)
def checks(colour: Colour, line: Colour, width: float = 0.06, seed: int = 0) -> Material:
    """Woven checks: blankets, table cloths, cushions."""
    band = ((np.arange(SIZE) * 8 // SIZE) % 2).astype(float)
    mix = (band[:, None] + band[None, :])[..., None] / 2
    image = np.asarray(colour) * (1 - mix) + np.asarray(line) * mix
    return _material(image, 8 * width)


@lru_cache(maxsize=64)
def motif(ground: Colour, figure: Colour, spacing: float = 0.15) -> Material:
    """Wallpaper with a small regular figure."""
    image = np.tile(np.asarray(ground, np.float32), (SIZE, SIZE, 1))
    for x, y in ((64, 64), (192, 192), (64, 320), (320, 64)):
        for angle in range(0, 180, 45):
            cv2.ellipse(image, (x, y), (34, 9), angle, 0, 360, figure, -1)
        cv2.circle(image, (x, y), 8, ground, -1)
    return _material(image, 2 * spacing)


@lru_cache(maxsize=32)
def marble(colour: Colour, vein: Colour, seed: int = 0) -> Material:
    """Polished marble with veins."""
    rng = np.random.default_rng(seed)
    warp = 0.5 * _noise(rng, (4, 4)) + 0.2 * _noise(rng, (16, 16))
    turns = 2 * np.pi * np.arange(SIZE) / SIZE
    phase = turns[:, None] + 2 * turns[None, :] + warp
    strength = 0.7 * np.exp(-9 * np.abs(np.sin(phase)))[..., None]
    image = np.asarray(colour) * (1 - strength) + np.asarray(vein) * strength
    return _material(image, 1.2, roughness=0.12)


def _noise(rng: np.random.Generator, cells: tuple[int, int]) -> np.ndarray:
    """Smooth noise of unit spread that repeats seamlessly, with (rows, columns) cells."""
    coarse = rng.normal(0, 1, cells).astype(np.float32)
    wrapped = np.pad(coarse, 3, mode="wrap")
    scale = (SIZE / cells[0], SIZE / cells[1])
    size = (round(wrapped.shape[1] * scale[1]), round(wrapped.shape[0] * scale[0]))
    fine = cv2.resize(wrapped, size, interpolation=cv2.INTER_CUBIC)
    top, left = round(3 * scale[0]), round(3 * scale[1])
    cut = fine[top : top + SIZE, left : left + SIZE]
    return cut / max(float(cut.std()), 1e-6)


def _shade(colour: Colour, tone: np.ndarray) -> np.ndarray:
    return np.asarray(colour) * tone[..., None]


def _material(image: np.ndarray, repeat: float, roughness: float | None = None) -> Material:
    pixels = (np.clip(image, 0, 1) * 255).astype(np.uint8)
    kind: Kind = "diffuse" if roughness is None else "plastic"
    mean = tuple(float(v) for v in pixels.reshape(-1, 3).mean(axis=0) / 255)
    return Material(kind, (mean[0], mean[1], mean[2]), roughness, Texture(pixels, repeat))
