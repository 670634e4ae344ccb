# SPDX-License-Identifier: Apache-2.0
"""Living-room furniture."""

from __future__ import annotations

import numpy as np

from newfound_sim.materials import Material
from newfound_sim.rooms import pictures
from newfound_sim.rooms.furniture.common import table_top
from newfound_sim.rooms.furniture.workshop import Workshop
from newfound_sim.rooms.pieces import Piece
from newfound_sim.rooms.shapes import (
    Solid,
    box,
    cushion,
    cylinder,
    picture,
    revolve,
    rod,
)
from newfound_sim.rooms.surfaces import bricks


def sofa(shop: Workshop) -> Piece:
    """A sofa for two or three."""
    seats = int(shop.rng.integers(2, 4))
    return Piece("sofa", seat_furniture(shop, seats, shop.between(0.62, 0.72)))


def armchair(shop: Workshop) -> Piece:
    """An armchair like the sofa."""
    return Piece("armchair", seat_furniture(shop, 1, 0.62))


def seat_furniture(shop: Workshop, seats: int, each: float) -> list[Solid]:
    """Upholstery with arms for a number of seats."""
    kind = shop.style.sofa
    inner = seats * each
    deep = 0.88
    finish = shop.style.leather if kind == "leather" else shop.fabric
    arm = {"wooden": 0.07, "boxy": 0.1, "leather": 0.2, "rolled": 0.2}[kind]
    parts = _seat_frame(shop, finish, inner, deep, arm)
    for seat in range(seats):
        x = -inner / 2 + (seat + 0.5) * each
        parts.append(cushion(finish, (x, 0.52, 0.3), (each - 0.01, 0.68, 0.16), 0.05))
        high = 0.5 if kind != "boxy" else 0.38
        parts.append(cushion(finish, (x, 0.24, 0.43), (each - 0.02, 0.18, high), 0.07))
    for _ in range(int(seats * (0.4 + shop.style.clutter))):
        x = shop.between(-0.4, 0.4) * inner
        pillow = cushion(shop.accent(), (0, 0, 0), (0.38, 0.14, 0.36), 0.065)
        parts.append(pillow.turned(shop.between(-20, 20)).moved(x, 0.44, 0.45))
    return parts


def television(shop: Workshop) -> Piece:
    """A television on a low cupboard."""
    w, d, h = shop.between(1.3, 1.8), 0.42, shop.between(0.4, 0.52)
    parts = shop.cabinet(shop.wood, (w, d, h), [("door",), ("open",), ("door",)], plinth=0.06)
    screen, tall = shop.between(0.95, 1.25), shop.between(0.55, 0.68)
    parts.append(box(shop.dark, (0, 0.2, h), (0.4, 0.2, 0.02)))
    parts.append(box(shop.dark, (0, 0.19, h + 0.02), (0.1, 0.05, 0.08)))
    parts.append(box(shop.dark, (0, 0.2, h + 0.08), (screen, 0.05, tall)))
    image = pictures.television(shop.rng, on=shop.chance(0.4))
    parts.append(picture(image, (0, 0.2265, h + 0.1), (screen - 0.04, tall - 0.04), shine=True))
    for x in (-0.42, 0.42):
        if shop.chance(0.5):
            parts += shop.small_thing((x * w, 0.2, h))
    return Piece("television", parts)


def coffee_table(shop: Workshop) -> Piece:
    """A low table with things on it."""
    h = shop.between(0.36, 0.45)
    if shop.style.legs in ("tapered", "box") and shop.chance(0.5):
        radius = shop.between(0.38, 0.48)
        stand = [(0.2, 0), (0.05, 0.05), (0.05, h - 0.05), (0.15, h - 0.03)]
        parts = [revolve(shop.metal, (0, 0.5, 0), stand)]
        parts.append(cylinder(shop.wood, (0, 0.5, h - 0.03), radius, 0.03))
    else:
        parts = table_top(shop, shop.between(0.9, 1.15), 0.58, h, 0.5)
    for _ in range(int(2 + 3 * shop.style.clutter)):
        parts += shop.small_thing((shop.between(-0.25, 0.25), 0.5 + shop.between(-0.15, 0.15), h))
    return Piece("coffee_table", parts)


def fireplace(shop: Workshop) -> Piece:
    """A fireplace with a mantel, as old houses have."""
    rustic = shop.style.fronts == "boarded"
    body: Material = (
        bricks((0.55, 0.3, 0.22), seed=4) if rustic else shop.pick(shop.style.worktops)
    )
    parts = []
    for x in (-0.58, 0.58):
        parts.append(box(body, (x, 0.2, 0), (0.3, 0.4, 1.05)))
    parts.append(box(body, (0, 0.2, 0.75), (0.88, 0.4, 0.3)))
    parts.append(box(shop.dark, (0, 0.1, 0), (0.88, 0.2, 0.75)))
    parts.append(box(shop.wood, (0, 0.23, 1.05), (1.6, 0.46, 0.07)))
    for i in range(4):
        start = (-0.25, 0.28 + 0.02 * i, 0.06 + 0.06 * (i % 2))
        parts.append(rod(shop.wood, start, (0.25, 0.3, 0.08 + 0.05 * i), 0.045))
    for x in np.linspace(-0.6, 0.6, 4):
        if shop.chance(0.7):
            parts += shop.small_thing((x, 0.22, 1.12))
    return Piece("fireplace", parts)


def sideboard(shop: Workshop) -> Piece:
    """A long low cupboard."""
    w, d, h = shop.between(1.2, 1.6), 0.45, shop.between(0.75, 0.9)
    parts = shop.cabinet(shop.wood, (w, d, h), [("drawer", "door")] * 3)
    for x in (-0.35, 0.0, 0.35):
        if shop.chance(0.4 + 0.5 * shop.style.clutter):
            parts += shop.small_thing((x * w, 0.22, h))
    return Piece("sideboard", parts)


def _seat_frame(
    shop: Workshop, finish: Material, inner: float, deep: float, arm: float
) -> list[Solid]:
    kind = shop.style.sofa
    w = inner + 2 * arm
    sides = (-(inner + arm) / 2, (inner + arm) / 2)
    parts: list[Solid] = []
    if kind == "wooden":
        parts += [part.moved(0, deep / 2) for part in shop.legs(w, deep, 0.28)]
        parts.append(box(shop.wood, (0, deep / 2, 0.24), (w, deep, 0.07)))
        parts.append(box(shop.wood, (0, 0.09, 0.3), (w, 0.05, 0.6)))
        for x in sides:
            parts.append(box(shop.wood, (x, deep / 2, 0.58), (arm + 0.03, deep, 0.05)))
            parts.append(box(shop.wood, (x, deep - 0.06, 0.3), (arm, 0.07, 0.28)))
        return parts
    low = 0.12 if kind != "boxy" else 0.16
    parts += [part.moved(0, deep / 2) for part in shop.legs(w, deep - 0.1, low)]
    parts.append(cushion(finish, (0, deep / 2, low), (w - 0.04, deep, 0.2), 0.03))
    parts.append(
        cushion(finish, (0, 0.1, low), (w - 0.04, 0.2, 0.7 if kind != "boxy" else 0.62), 0.05)
    )
    for x in sides:
        parts.append(cushion(finish, (x, deep / 2, low), (arm, deep, 0.46), 0.04))
        if kind == "rolled":
            parts.append(rod(finish, (x, 0.04, low + 0.47), (x, deep + 0.01, low + 0.47), 0.12))
    return parts
