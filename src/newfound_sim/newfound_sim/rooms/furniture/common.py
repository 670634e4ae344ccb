# SPDX-License-Identifier: Apache-2.0
"""Furniture that several kinds of rooms have: tables, chairs, shelves, plants, pictures, lamps."""

from __future__ import annotations

import itertools

import numpy as np

from newfound_sim.rooms import pictures
from newfound_sim.rooms.furniture.workshop import Workshop
from newfound_sim.rooms.pieces import Piece
from newfound_sim.rooms.shapes import (
    Solid,
    box,
    cushion,
    cylinder,
    ellipsoid,
    laid_flat,
    leaf,
    named,
    panel,
    picture,
    revolve,
    rod,
)
from newfound_sim.rooms.surfaces import paint, speckled

GREEN = (paint((0.16, 0.36, 0.14)), paint((0.26, 0.46, 0.18)))


def table_top(shop: Workshop, w: float, d: float, h: float, y: float = 0.0) -> list[Solid]:
    """A table whose middle is over (0, y)."""
    parts = [box(shop.wood, (0, y, h - 0.035), (w, d, 0.035))]
    if shop.style.legs in ("turned", "tapered"):
        parts.append(box(shop.wood, (0, y, h - 0.11), (w - 0.12, d - 0.12, 0.075)))
    return parts + shop.legs(w, d, h - 0.035, (0, y, 0))


def chair(shop: Workshop, y: float = 0.0, turned: float = 0.0, x: float = 0.0) -> list[Solid]:
    """A dining chair with its seat's middle over (x, y), facing +y before it is turned."""
    kind = shop.style.legs
    seat = 0.45
    parts = shop.legs(0.44, 0.44, seat - 0.03)
    top = shop.fabric if kind == "frame" else shop.wood
    parts.append(box(top, (0, 0, seat - 0.03), (0.44, 0.44, 0.035)))
    if kind in ("turned", "tapered"):
        high = 0.95 if kind == "turned" else 1.0
        for side in (-0.19, 0.19):
            parts.append(rod(shop.wood, (side, -0.2, seat), (side, -0.24, high), 0.018))
        for rail in np.linspace(seat + 0.15, high - 0.04, 3 if kind == "turned" else 2):
            parts.append(box(shop.wood, (0, -0.23, rail), (0.38, 0.02, 0.06)))
        if kind == "tapered":
            parts.append(cushion(shop.fabric, (0, 0, seat), (0.42, 0.42, 0.05), 0.02))
    else:
        parts.append(panel(top, (0, -0.2, seat + 0.12), (0.42, 0.02, 0.3), 8))
        for side in (-0.17, 0.17):
            parts.append(rod(shop.metal, (side, -0.19, seat), (side, -0.24, seat + 0.38), 0.012))
    return named("chair", [part.turned(turned).moved(x, y) for part in parts])


def dining_set(shop: Workshop) -> Piece:
    """A table with chairs around it and something on it."""
    w, d, h = shop.between(1.1, 1.6), shop.between(0.75, 0.9), 0.74
    reach = 0.28
    y = d / 2 + reach + 0.24
    parts = table_top(shop, w, d, h, y)
    seats = (-w / 4, w / 4) if w > 1.2 else (0.0,)
    for x in seats:
        parts += chair(shop, y - d / 2 - reach + 0.12, 0, x)
        parts += chair(shop, y + d / 2 + reach - 0.12, 180, x)
    for _ in range(int(1 + 4 * shop.style.clutter)):
        spot = (shop.between(-0.4, 0.4) * w, y + shop.between(-0.3, 0.3) * d, h)
        parts += shop.small_thing(spot)
    bowl = [(0.05, 0), (0.12, 0.04), (0.14, 0.08)]
    parts.append(revolve(shop.accent(0.2), (0, y, h), bowl))
    return Piece("table", parts)


def bookshelf(shop: Workshop) -> Piece:
    """Open shelves with books and other things."""
    w, d, h = shop.between(0.7, 1.2), 0.3, shop.between(1.6, 2.0)
    board = 0.025
    finish = shop.wood
    uprights = shop.metal if shop.style.legs == "box" else finish
    parts = [box(uprights, (x, d / 2, 0), (0.03, d, h)) for x in (-w / 2, w / 2)]
    if shop.style.legs != "box":
        parts.append(box(finish, (0, 0.006, 0), (w, 0.012, h)))
    levels = np.linspace(0.08, h - board, int(shop.rng.integers(5, 7)))
    for low, high in itertools.pairwise(levels):
        parts.append(box(finish, (0, d / 2, low), (w, d, board)))
        fill = shop.between(0.25, 0.6) + 0.4 * shop.style.clutter
        start = -w / 2 + 0.03
        stop = start + min(fill, 1.0) * (w - 0.06)
        parts += shop.books(start, stop, d - 0.03, low + board, high - low - board - 0.02)
        if stop < w / 2 - 0.2:
            parts += shop.small_thing(((stop + w / 2) / 2, d / 2, low + board))
    parts.append(box(finish, (0, d / 2, h - board), (w, d, board)))
    return Piece("bookshelf", parts)


def plant(shop: Workshop) -> Piece:
    """A potted plant on the floor, bushy or with long blades."""
    height = shop.between(0.7, 1.4)
    y = 0.26
    pot = [(0.11, 0), (0.16, 0.26), (0.17, 0.28)]
    parts = [revolve(shop.accent(0.4), (0, y, 0), pot)]
    green = shop.pick(GREEN)
    if shop.chance(0.5):
        for _ in range(26):
            angle, reach = shop.between(0, 2 * np.pi), shop.between(0.1, 0.24)
            tip = (reach * np.cos(angle), y + reach * np.sin(angle), shop.between(0.5, 1) * height)
            parts.append(leaf(green, (0.2 * tip[0], y, 0.27), tip, 0.07))
    else:
        parts.append(rod(shop.wood, (0, y, 0.2), (0, y, 0.65 * height), 0.018))
        for _ in range(9):
            middle = (
                shop.between(-0.12, 0.12),
                y + shop.between(-0.12, 0.12),
                shop.between(0.6, 0.95) * height,
            )
            size = shop.between(0.08, 0.13)
            parts.append(ellipsoid(shop.pick(GREEN), middle, (size, size, 0.8 * size)))
    return Piece("plant", parts)


def framed_picture(shop: Workshop) -> Piece:
    """A painting in a frame, for a wall."""
    w, h = shop.between(0.4, 0.9), shop.between(0.35, 0.7)
    image = pictures.painting(shop.rng, 160, int(160 * h / w))
    edge = shop.pick((shop.wood, shop.metal, shop.dark))
    parts = [box(edge, (0, 0.012, 0), (w, 0.024, h))]
    parts.append(box(shop.white, (0, 0.0135, 0.025), (w - 0.05, 0.024, h - 0.05)))
    parts.append(picture(image, (0, 0.027, 0.06), (w - 0.12, h - 0.12)))
    return Piece("picture", parts)


def wall_clock(shop: Workshop) -> Piece:
    """A clock."""
    parts = [box(shop.dark, (0, 0.015, 0), (0.32, 0.03, 0.32))]
    parts.append(picture(pictures.clock(), (0, 0.031, 0.01), (0.3, 0.3)))
    return Piece("clock", parts)


def floor_lamp(shop: Workshop) -> Piece:
    """A standing lamp with a shade."""
    h, y = shop.between(1.4, 1.65), 0.2
    parts = [cylinder(shop.metal, (0, y, 0), 0.14, 0.025)]
    parts.append(rod(shop.metal, (0, y, 0.02), (0, y, h), 0.012))
    parts.append(shop.lamp_shade((0, y, h - 0.08), 0.19, 0.26))
    return Piece("floor_lamp", parts)


def table_lamp(shop: Workshop, x: float, y: float, z: float) -> list[Solid]:
    """A small lamp to stand on something."""
    foot = [(0.06, 0), (0.03, 0.03), (0.045, 0.1), (0.012, 0.2), (0.012, 0.24)]
    return [
        revolve(shop.accent(0.3), (x, y, z), foot),
        shop.lamp_shade((x, y, z + 0.2), 0.12, 0.16),
    ]


def rug(shop: Workshop, w: float, d: float) -> Piece:
    """A carpet on the floor."""
    colours = shop.pick(shop.style.rugs)
    image = pictures.rug(shop.rng, colours, shop.style.rug)
    edge = speckled(colours[0], 0.1)
    parts = [box(edge, (0, d / 2, 0.001), (w, d, 0.01))]
    parts.append(laid_flat(image, (0, d / 2, 0.0125), (w, d)))
    return Piece("rug", parts, flat=True)


def radiator(shop: Workshop) -> Piece:
    """A ribbed radiator, as stands under windows."""
    w, h = shop.between(0.8, 1.3), 0.6
    ribs = int(w / 0.06)
    parts = [
        cushion(
            shop.white, (-w / 2 + (i + 0.5) * w / ribs, 0.07, 0.1), (0.045, 0.08, h - 0.1), 0.02
        )
        for i in range(ribs)
    ]
    for z in (0.15, h - 0.06):
        parts.append(rod(shop.white, (-w / 2, 0.07, z), (w / 2, 0.07, z), 0.02))
    return Piece("radiator", parts)


def waste_bin(shop: Workshop) -> Piece:
    """A bin."""
    return Piece("bin", [revolve(shop.accent(0.4), (0, 0.15, 0), [(0.1, 0), (0.14, 0.32)])])


def box_pile(shop: Workshop) -> Piece:
    """A pile of cardboard boxes."""
    card = paint((0.66, 0.5, 0.33))
    parts = []
    z = 0.0
    for _ in range(int(shop.rng.integers(1, 4))):
        size = (shop.between(0.3, 0.45), shop.between(0.28, 0.38), shop.between(0.2, 0.32))
        parts.append(box(card, (shop.between(-0.03, 0.03), 0.21, z), size))
        z += size[2]
    return Piece("boxes", parts)
