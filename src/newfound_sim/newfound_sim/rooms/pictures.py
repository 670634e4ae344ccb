# SPDX-License-Identifier: Apache-2.0
"""Small images for things that show something: paintings, posters, screens, clocks, rugs."""

from __future__ import annotations

import itertools

import cv2
import numpy as np

Image = np.ndarray  # [H, W, 3] uint8, sRGB
Rng = np.random.Generator


def painting(rng: Rng, wide: int = 160, high: int = 120) -> Image:
    """A landscape or coloured shapes, for a frame on the wall."""
    return _landscape(rng, wide, high) if rng.random() < 0.5 else _abstract(rng, wide, high)


def poster(rng: Rng, wide: int = 120, high: int = 170) -> Image:
    """A scientific poster: a coloured title, columns of text, some diagrams."""
    image = np.full((high, wide, 3), 245, np.uint8)
    tint = _colour(rng, 40, 170)
    image[: high // 7] = tint
    for x in (8, wide // 2 + 4):
        y = high // 7 + 8
        while y < high - 12:
            if rng.random() < 0.12:
                size = int(rng.integers(14, 30))
                cv2.rectangle(image, (x, y), (x + wide // 2 - 14, y + size), _colour(rng), -1)
                y += size + 5
            else:
                end = x + int(rng.uniform(0.6, 1) * (wide // 2 - 14))
                cv2.line(image, (x, y), (end, y), (110, 110, 110), 1)
                y += 5
    return image


def notice_board(rng: Rng, ground: tuple[int, int, int], papers: int) -> Image:
    """Pinned papers on cork or felt."""
    image = np.full((140, 240, 3), ground, np.uint8)
    image = np.clip(image + rng.normal(0, 7, image.shape), 0, 255).astype(np.uint8)
    for _ in range(papers):
        w, h = int(rng.integers(24, 46)), int(rng.integers(30, 50))
        x, y = int(rng.integers(4, 236 - w)), int(rng.integers(4, 136 - h))
        light = (248, 247, 242) if rng.random() < 0.6 else _colour(rng, 150, 250)
        cv2.rectangle(image, (x, y), (x + w, y + h), light, -1)
        for row in range(y + 7, y + h - 4, 5):
            end = x + 4 + int(rng.uniform(0.4, 1) * (w - 8))
            cv2.line(image, (x + 4, row), (end, row), (90, 90, 95), 1)
        cv2.circle(image, (x + w // 2, y + 3), 2, _colour(rng, 0, 255), -1)
    return image


def whiteboard(rng: Rng) -> Image:
    """Boxes, arrows and scribbles in marker colours."""
    image = np.full((130, 220, 3), 244, np.uint8)
    inks = [(40, 60, 160), (180, 40, 40), (30, 120, 60), (40, 40, 40)]
    for _ in range(int(rng.integers(5, 12))):
        ink = inks[int(rng.integers(4))]
        x, y = int(rng.integers(10, 180)), int(rng.integers(10, 100))
        if rng.random() < 0.4:
            cv2.rectangle(image, (x, y), (x + 30, y + 18), ink, 1)
        else:
            steps = rng.normal(0, 3, (12, 2)).cumsum(axis=0) + np.column_stack(
                [np.linspace(0, 34, 12), np.zeros(12)]
            )
            cv2.polylines(image, [(steps + np.array([x, y])).astype(np.int32)], False, ink, 1)
    return image


def desktop(rng: Rng) -> Image:
    """A computer screen with windows open."""
    image = np.full((100, 160, 3), _colour(rng, 40, 140), np.uint8)
    image[-8:] = 35
    for _ in range(int(rng.integers(1, 4))):
        x, y = int(rng.integers(4, 60)), int(rng.integers(4, 30))
        w, h = int(rng.integers(60, 95)), int(rng.integers(40, 58))
        dark = rng.random() < 0.4
        cv2.rectangle(image, (x, y), (x + w, y + h), (30, 32, 38) if dark else (240,) * 3, -1)
        cv2.rectangle(image, (x, y), (x + w, y + 5), (90, 120, 170), -1)
        for row in range(y + 10, y + h - 3, 4):
            ink = _colour(rng, 120, 230) if dark else (120, 120, 125)
            cv2.line(image, (x + 4, row), (x + 4 + int(rng.uniform(0.2, 0.9) * w), row), ink, 1)
    return image


def television(rng: Rng, on: bool) -> Image:
    """What a television shows: a programme, or nothing."""
    if on:
        return _landscape(rng, 160, 90)
    return np.full((90, 160, 3), 12, np.uint8)


def clock(ground: tuple[int, int, int] = (245, 245, 240)) -> Image:
    """A round wall clock on the colour of its square."""
    image = np.full((96, 96, 3), ground, np.uint8)
    cv2.circle(image, (48, 48), 45, (30, 30, 30), 4)
    for hour in range(12):
        a = hour * np.pi / 6
        tip = (int(48 + 38 * np.sin(a)), int(48 - 38 * np.cos(a)))
        cv2.circle(image, tip, 2, (30, 30, 30), -1)
    cv2.line(image, (48, 48), (48, 18), (20, 20, 20), 3)
    cv2.line(image, (48, 48), (68, 58), (20, 20, 20), 4)
    return image


def rug(rng: Rng, colours: tuple[tuple[float, float, float], ...], kind: str) -> Image:
    """A carpet's pattern: bordered, striped or shaggy plain."""
    tints = [tuple(int(255 * c) for c in colour) for colour in colours]
    image = np.full((160, 220, 3), tints[0], np.uint8)
    if kind == "bordered":
        for step, margin in enumerate((8, 14, 26, 32)):
            tint = tints[(step + 1) % len(tints)]
            cv2.rectangle(image, (margin, margin), (220 - margin, 160 - margin), tint, -1)
        for x in range(50, 190, 30):
            cv2.ellipse(image, (x, 80), (11, 26), 0, 0, 360, tints[1 % len(tints)], -1)
            cv2.ellipse(image, (x, 80), (5, 14), 0, 0, 360, tints[0], -1)
    elif kind == "striped":
        edges = np.sort(rng.integers(0, 220, 12))
        for left, right in itertools.pairwise(edges):
            image[:, left:right] = tints[int(rng.integers(len(tints)))]
    noise = rng.normal(0, 9, (160, 220, 1))
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def hob() -> Image:
    """A ceramic cooker top with four rings, seen from above."""
    image = np.full((100, 110, 3), 18, np.uint8)
    for x, y, r in ((30, 28, 18), (80, 28, 14), (30, 72, 14), (80, 72, 18)):
        cv2.circle(image, (x, y), r, (120, 110, 105), 2)
        cv2.circle(image, (x, y), r - 6, (70, 64, 62), 1)
    return image


def keyboard() -> Image:
    """Rows of keys."""
    image = np.full((40, 120, 3), 45, np.uint8)
    for y in range(4, 36, 8):
        for x in range(4, 114, 8):
            cv2.rectangle(image, (x, y), (x + 5, y + 5), (200, 200, 200), -1)
    return image


def emergency_sign() -> Image:
    """White running figure and arrow on green, above an exit."""
    image = np.full((50, 100, 3), (20, 140, 70), np.uint8)
    cv2.circle(image, (32, 12), 5, (255, 255, 255), -1)
    cv2.line(image, (32, 18), (28, 32), (255, 255, 255), 5)
    cv2.line(image, (28, 32), (18, 42), (255, 255, 255), 4)
    cv2.line(image, (28, 32), (38, 44), (255, 255, 255), 4)
    cv2.arrowedLine(image, (52, 26), (90, 26), (255, 255, 255), 5, tipLength=0.4)
    return image


def door_plate(rng: Rng) -> Image:
    """A name plate with a number."""
    image = np.full((30, 44, 3), 235, np.uint8)
    label = str(int(rng.integers(101, 499)))
    cv2.putText(image, label, (3, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (40, 40, 60), 1)
    return image


def _landscape(rng: Rng, wide: int, high: int) -> Image:
    horizon = int(rng.uniform(0.4, 0.65) * high)
    image = np.zeros((high, wide, 3), np.uint8)
    fade = np.linspace(0, 1, high)[:, None, None]
    image[:] = (1 - fade) * _colour(rng, 110, 200) + fade * np.array([235, 225, 200])
    for layer in range(3):
        base = horizon + layer * (high - horizon) // 4
        ridge = base + np.interp(
            np.arange(wide), np.linspace(0, wide, 6), rng.normal(0, high / 14, 6)
        )
        tint = (np.array(_colour(rng, 50, 150)) * (0.9 - 0.2 * layer)).astype(np.uint8)
        for x in range(wide):
            image[max(int(ridge[x]), 0) :, x] = tint
    return image


def _abstract(rng: Rng, wide: int, high: int) -> Image:
    image = np.full((high, wide, 3), _colour(rng, 170, 245), np.uint8)
    for _ in range(int(rng.integers(4, 9))):
        x, y = int(rng.integers(0, wide)), int(rng.integers(0, high))
        size = int(rng.integers(high // 8, high // 2))
        if rng.random() < 0.5:
            cv2.circle(image, (x, y), size // 2, _colour(rng, 30, 230), -1)
        else:
            cv2.rectangle(image, (x, y), (x + size, y + size), _colour(rng, 30, 230), -1)
    return image


def _colour(rng: Rng, low: int = 60, high: int = 220) -> tuple[int, int, int]:
    r, g, b = (int(v) for v in rng.integers(low, high, 3))
    return r, g, b
