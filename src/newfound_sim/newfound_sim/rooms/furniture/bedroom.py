# SPDX-License-Identifier: Apache-2.0
"""Bedroom furniture."""

from __future__ import annotations

import numpy as np

from newfound_sim.rooms.furniture.common import table_lamp
from newfound_sim.rooms.furniture.workshop import Workshop
from newfound_sim.rooms.pieces import Piece
from newfound_sim.rooms.shapes import Solid, box, cushion, ellipsoid, revolve
from newfound_sim.rooms.surfaces import mirror


def bed(shop: Workshop) -> Piece:
    """A bed with its head to the wall, pillows and a blanket."""
    double = shop.style.bed != "plain" and shop.chance(0.75)
    w, length = (shop.between(1.4, 1.7) if double else 0.95), 2.0
    base = 0.22 if shop.style.bed == "platform" else 0.34
    top = base + 0.22
    parts = _frame(shop, w, length, base)
    linen, cover = shop.pick(shop.style.linen), shop.pick((*shop.style.linen, shop.fabric))
    parts.append(
        cushion(shop.white, (0, length / 2 + 0.06, base), (w - 0.04, length - 0.06, 0.22), 0.05)
    )
    fold = shop.between(0.5, 0.75)
    start = length * (1 - fold) + 0.06
    parts.append(
        cushion(
            cover,
            (0, (start + length + 0.09) / 2, base + 0.03),
            (w + 0.05, length + 0.09 - start, 0.25),
            0.06,
        )
    )
    parts.append(cushion(linen, (0, start + 0.1, top - 0.02), (w + 0.03, 0.28, 0.075), 0.035))
    pillows = (-w / 4, w / 4) if double else (0.0,)
    for x in pillows:
        size = (min(0.68, w / len(pillows) - 0.06), 0.42, 0.15)
        parts.append(cushion(linen, (x, 0.34, top), size, 0.07))
        if shop.chance(0.5 * shop.style.clutter + 0.2):
            parts.append(cushion(shop.accent(), (x, 0.52, top + 0.04), (0.4, 0.2, 0.25), 0.09))
    return Piece("bed", parts)


def night_stand(shop: Workshop) -> Piece:
    """A small cupboard with a lamp and a book."""
    h = shop.between(0.45, 0.58)
    finish = shop.wood
    if shop.style.legs == "box":
        parts = [box(finish, (0, 0.2, h - 0.03), (0.42, 0.38, 0.03))]
        parts += [part.moved(0, 0.2) for part in shop.legs(0.42, 0.38, h - 0.03)]
        parts.append(box(finish, (0, 0.2, 0.15), (0.38, 0.34, 0.02)))
    else:
        parts = shop.cabinet(finish, (0.42, 0.38, h), [("drawer", "drawer")])
    parts += table_lamp(shop, -0.05, 0.16, h)
    parts.append(box(shop.accent(), (0.12, 0.25, h), (0.13, 0.18, 0.03)))
    return Piece("night_stand", parts)


def wardrobe(shop: Workshop) -> Piece:
    """A wardrobe, two or three doors wide, perhaps with a mirror."""
    doors = int(shop.rng.integers(2, 4))
    w, d, h = 0.52 * doors, 0.6, shop.between(1.85, 2.02)
    columns = [("door", "drawer")] * doors if shop.chance(0.4) else [("door",)] * doors
    parts = shop.cabinet(shop.wood, (w, d, h), columns)
    if shop.style.fronts in ("panelled", "boarded"):
        parts.append(box(shop.wood, (0, d / 2 + 0.02, h), (w + 0.08, d + 0.06, 0.06)))
    if shop.chance(0.4):
        middle = -w / 2 + 0.26 if doors == 2 else 0.0
        parts.append(box(mirror(), (middle, d + 0.034, 0.75), (0.36, 0.006, h - 0.95)))
    return Piece("wardrobe", parts)


def dresser(shop: Workshop) -> Piece:
    """A chest of drawers with small things on it."""
    w, d, h = shop.between(0.8, 1.2), 0.46, shop.between(0.75, 0.95)
    rows = int(shop.rng.integers(3, 5))
    parts = shop.cabinet(shop.wood, (w, d, h), [("drawer",) * rows] * (1 if w < 0.95 else 2))
    for x in np.linspace(-0.35, 0.35, int(1 + 4 * shop.style.clutter)):
        parts += shop.small_thing((x * w, 0.22, h))
    return Piece("dresser", parts)


def bench_at_foot(shop: Workshop) -> Piece:
    """An upholstered bench."""
    parts = [part.moved(0, 0.2) for part in shop.legs(1.1, 0.4, 0.36)]
    parts.append(cushion(shop.fabric, (0, 0.2, 0.36), (1.1, 0.4, 0.1), 0.04))
    return Piece("bench", parts)


def clothes_stand(shop: Workshop) -> Piece:
    """Clothes over a chair-high valet."""
    parts = [
        revolve(shop.wood, (0, 0.22, 0), [(0.16, 0), (0.16, 0.02), (0.02, 0.04), (0.02, 1.5)])
    ]
    for turn in (0.4, 2.2, 4.0):
        x, y = 0.12 * np.cos(turn), 0.22 + 0.12 * np.sin(turn)
        parts.append(cushion(shop.accent(), (x, y, 0.75), (0.18, 0.12, 0.7), 0.05))
    return Piece("clothes", parts)


def _frame(shop: Workshop, w: float, length: float, base: float) -> list[Solid]:
    kind = shop.style.bed
    middle = length / 2 + 0.06
    if kind == "platform":
        foot = box(shop.dark, (0, middle, 0), (w - 0.3, length - 0.3, 0.1))
        deck = box(shop.wood, (0, middle, 0.1), (w + 0.2, length + 0.12, 0.12))
        board = box(shop.wood, (0, 0.025, 0.1), (w + 0.5, 0.05, 0.75))
        return [foot, deck, board]
    if kind == "upholstered":
        side = box(shop.fabric, (0, middle, 0.1), (w + 0.02, length, base - 0.1))
        feet = [part.moved(0, middle) for part in shop.legs(w, length - 0.1, 0.1)]
        head = [cushion(shop.fabric, (0, 0.07, 0.1), (w + 0.12, 0.12, 1.1), 0.05)]
        for x in np.linspace(-0.4, 0.4, 5):
            for z in (0.75, 0.95):
                head.append(ellipsoid(shop.metal, (x * w, 0.135, z), (0.015, 0.01, 0.015)))
        return [side, *feet, *head]
    rail = box(shop.wood, (0, middle, base - 0.14), (w, length, 0.14))
    parts = [rail, box(shop.wood, (0, 0.03, 0.3), (w, 0.04, 0.55 if kind == "posts" else 0.4))]
    finish = shop.metal if kind == "plain" else shop.wood
    high = 1.05 if kind == "posts" else 0.75
    for x in (-w / 2, w / 2):
        parts.append(
            revolve(
                finish,
                (x, 0.04, 0),
                [(0.035, 0), (0.035, high), (0.05, high + 0.05), (0.01, high + 0.09)],
            )
        )
        parts.append(
            revolve(
                finish,
                (x, length + 0.08, 0),
                [(0.035, 0), (0.035, 0.6), (0.045, 0.64), (0.01, 0.67)],
            )
        )
    if kind == "posts":
        parts.append(box(shop.wood, (0, length + 0.08, 0.25), (w, 0.035, 0.3)))
    return parts
