# SPDX-License-Identifier: Apache-2.0
"""Bathroom furniture."""

from __future__ import annotations

import numpy as np

from newfound_sim.materials import Material
from newfound_sim.rooms.furniture.workshop import Workshop
from newfound_sim.rooms.pieces import Piece
from newfound_sim.rooms.shapes import (
    Solid,
    box,
    cushion,
    cylinder,
    ellipsoid,
    revolve,
    rod,
    rods,
)
from newfound_sim.rooms.surfaces import mirror, paint

WATER = paint((0.75, 0.82, 0.85), 0.1)
GLASS = Material("glass", (0.86, 0.93, 0.92))


def toilet(shop: Workshop) -> Piece:
    """A toilet with a cistern, its lid up or down."""
    c = shop.style.ceramic
    parts = [cushion(c, (0, 0.1, 0.4), (0.4, 0.18, 0.36), 0.03)]
    bowl = [(0.11, 0), (0.1, 0.12), (0.15, 0.28), (0.2, 0.38), (0.2, 0.4)]
    body = revolve(c, (0, 0, 0), bowl)
    parts.append(_stretched(body, 0.95, 1.25).moved(0, 0.44))
    parts.append(cushion(c, (0, 0.24, 0), (0.2, 0.3, 0.36), 0.04))
    seat_finish = shop.pick((shop.white, shop.style.ceramic, shop.wood))
    seat = revolve(seat_finish, (0, 0, 0), [(0.2, 0), (0.21, 0.015), (0.2, 0.03)])
    parts.append(_stretched(seat, 0.95, 1.2).moved(0, 0.45, 0.405))
    if shop.chance(0.5):  # lid up: a disc upright before the cistern, the dark hole below
        lid = cushion(seat_finish, (0, 0.215, 0.43), (0.37, 0.025, 0.42), 0.012)
        hole = revolve(shop.dark, (0, 0, 0), [(0.13, 0), (0.13, 0.002)])
        parts += [lid, _stretched(hole, 0.9, 1.2).moved(0, 0.45, 0.436)]
    parts.append(box(shop.metal, (0, 0.1, 0.76), (0.07, 0.05, 0.01)))
    return Piece("toilet", parts)


def washbasin(shop: Workshop) -> Piece:
    """A sink with tap: on a pedestal, or set into a cupboard."""
    c = shop.style.ceramic
    if shop.style.fronts in ("panelled", "boarded") and shop.chance(0.5):
        w, d, top = 0.55, 0.45, 0.85
        parts = [revolve(c, (0, 0.25, 0), [(0.12, 0), (0.08, 0.1), (0.08, 0.55), (0.14, 0.7)])]
        parts.append(cushion(c, (0, d / 2, 0.68), (w, d, top - 0.68), 0.05))
    else:
        w, d, top = shop.between(0.6, 1.0), 0.48, 0.86
        fronts = [("door",)] * (1 if w < 0.7 else 2)
        parts = shop.cabinet(shop.pick((shop.wood, shop.white)), (w, d, top - 0.06), fronts)
        parts.append(cushion(c, (0, d / 2, top - 0.06), (w + 0.02, d + 0.02, 0.06), 0.02))
    basin = revolve(paint((0.8, 0.82, 0.83), 0.15), (0, 0, 0), [(0.17, 0), (0.17, 0.003)])
    parts.append(_stretched(basin, 1.15, 0.8).moved(0, d / 2 + 0.04, top))
    parts += _tap(shop, 0, 0.07, top)
    parts.append(cylinder(shop.accent(0.3), (0.2, 0.08, top), 0.03, 0.1))
    parts.append(
        revolve(shop.accent(0.3), (-0.2, 0.08, top), [(0.03, 0), (0.03, 0.1), (0.01, 0.13)])
    )
    return Piece("washbasin", parts)


def wall_mirror(shop: Workshop, width: float) -> Piece:
    """A mirror with a lamp above it."""
    w, h = max(0.45, width), shop.between(0.6, 0.9)
    edge = shop.pick((shop.wood, shop.metal, shop.white))
    parts = [box(edge, (0, 0.01, 0), (w, 0.02, h))]
    parts.append(box(mirror(), (0, 0.0215, 0.03), (w - 0.06, 0.003, h - 0.06)))
    light = cushion(paint((0.95, 0.95, 0.93)), (0, 0.06, h + 0.06), (0.7 * w, 0.07, 0.07), 0.03)
    parts.append(box(shop.metal, (0, 0.015, h + 0.07), (0.2, 0.03, 0.04)))
    parts.append(Solid(light.vertices, light.faces, light.finish, lamp=True))
    return Piece("mirror", parts)


def bath(shop: Workshop) -> Piece:
    """A bathtub or a shower, as the building has it."""
    kind = shop.style.bath
    if kind == "freestanding":
        return _freestanding(shop)
    return _shower(shop) if kind == "shower" else _tub(shop)


def towel_rail(shop: Workshop) -> Piece:
    """Towels on a rail at the wall."""
    w = shop.between(0.5, 0.7)
    parts = [rod(shop.metal, (-w / 2, 0.06, 0.6), (w / 2, 0.06, 0.6), 0.01)]
    for side in (-w / 2, w / 2):
        parts.append(rod(shop.metal, (side, 0, 0.6), (side, 0.06, 0.6), 0.01))
    for x in (-w / 4, w / 4):
        drop = shop.between(0.35, 0.55)
        parts.append(cushion(shop.accent(), (x, 0.06, 0.62 - drop), (0.42 * w, 0.045, drop), 0.02))
    return Piece("towels", parts)


def cabinet(shop: Workshop) -> Piece:
    """A tall narrow cupboard for towels and bottles."""
    finish = shop.pick((shop.white, shop.wood))
    return Piece("bathroom_cabinet", shop.cabinet(finish, (0.4, 0.33, 1.6), [("door", "door")]))


def washing_machine(shop: Workshop) -> Piece:
    """A front loader with its round window."""
    parts = [cushion(shop.white, (0, 0.3, 0), (0.6, 0.58, 0.85), 0.015)]
    for radius, finish, y in ((0.2, shop.metal, 0.6), (0.16, shop.dark, 0.608)):
        parts.append(rod(finish, (0, y - 0.02, 0.4), (0, y, 0.4), radius))
    parts.append(box(shop.metal, (0.0, 0.593, 0.73), (0.56, 0.006, 0.09)))
    parts.append(rod(shop.dark, (0.18, 0.59, 0.775), (0.18, 0.615, 0.775), 0.03))
    return Piece("washing_machine", parts)


def toilet_roll(shop: Workshop) -> Piece:
    """A paper roll on its holder, for the wall beside the toilet."""
    parts = [rod(shop.white, (-0.06, 0.07, 0), (0.06, 0.07, 0), 0.055)]
    parts.append(rod(shop.metal, (0.07, 0, 0.02), (0.07, 0.07, 0), 0.008))
    return Piece("toilet_roll", parts)


def bath_mat(shop: Workshop) -> Piece:
    """A small mat on the floor."""
    return Piece(
        "mat", [cushion(shop.accent(), (0, 0.3, 0.001), (0.8, 0.5, 0.02), 0.01)], flat=True
    )


def _tub(shop: Workshop) -> Piece:
    w, d, h = shop.between(1.5, 1.7), 0.72, 0.56
    c = shop.style.ceramic
    rim = 0.07
    parts = [box(c, (0, d / 2, 0), (w, d, 0.12))]
    for x in (-w / 2 + rim / 2, w / 2 - rim / 2):
        parts.append(cushion(c, (x, d / 2, 0), (rim, d, h), 0.03))
    for y in (rim / 2, d - rim / 2):
        parts.append(cushion(c, (0, y, 0), (w, rim, h), 0.03))
    parts.append(box(WATER, (0, d / 2, 0.12), (w - 2 * rim, d - 2 * rim, 0.2)))
    parts += [p.moved(w / 2 - 0.25, 0.0, h) for p in _tap(shop, 0, 0.05, 0)]
    if shop.chance(0.7):  # a curtain on a rail
        parts.append(rod(shop.metal, (-w / 2, d - 0.04, 1.95), (w / 2, d - 0.04, 1.95), 0.012))
        parts += folds(shop.accent(), (-w / 2 + 0.05, -w / 2 + 0.55), d - 0.04, (0.3, 1.93))
    return Piece("bathtub", parts)


def _freestanding(shop: Workshop) -> Piece:
    c = shop.style.ceramic
    outer = [(0.24, 0.12), (0.32, 0.25), (0.36, 0.5), (0.38, 0.6), (0.35, 0.61), (0.33, 0.5)]
    body = _stretched(revolve(c, (0, 0, 0), [*outer, (0.3, 0.42)]), 2.15, 1.0)
    water = _stretched(revolve(WATER, (0, 0, 0.5), [(0.33, 0), (0.33, 0.004)]), 2.15, 1.0)
    parts = [body.moved(0, 0.45), water.moved(0, 0.45)]
    for x in (-0.45, 0.45):
        for y in (0.3, 0.6):
            parts.append(ellipsoid(shop.metal, (x, y, 0.08), (0.05, 0.05, 0.08)))
    tap = [(0.0, 0.03, 0.0), (0.0, 0.03, 0.95), (0.0, 0.2, 0.95), (0.0, 0.2, 0.85)]
    parts += rods(shop.metal, tap, 0.016)
    return Piece("bathtub", parts)


def _shower(shop: Workshop) -> Piece:
    w, d, h = shop.between(0.85, 1.1), 0.9, 2.0
    c = shop.style.ceramic
    parts = [cushion(c, (0, d / 2, 0), (w, d, 0.1), 0.02)]
    for x in (-w / 2 + 0.01, w / 2 - 0.01):
        parts.append(box(GLASS, (x, d / 2, 0.1), (0.004, d - 0.04, h - 0.1)))
        for y in (0.02, d - 0.02):
            parts.append(box(shop.metal, (x, y, 0.1), (0.03, 0.03, h - 0.1)))
        parts.append(box(shop.metal, (x, d / 2, h), (0.03, d, 0.03)))
    parts.append(box(shop.metal, (0, d - 0.02, h), (w, 0.03, 0.03)))
    parts.append(box(GLASS, (-w / 4, d - 0.02, 0.1), (w / 2 - 0.03, 0.004, h - 0.1)))
    parts.append(box(shop.metal, (0, d - 0.02, 0.1), (0.025, 0.025, h - 0.1)))
    pipe = [(0.0, 0.05, 1.0), (0.0, 0.05, 1.95), (0.0, 0.3, 1.95)]
    parts += rods(shop.metal, pipe, 0.014)
    parts.append(cylinder(shop.metal, (0, 0.3, 1.9), 0.11, 0.03))
    parts.append(box(shop.metal, (0, 0.05, 1.0), (0.2, 0.06, 0.06)))
    return Piece("shower", parts)


def folds(
    finish: Material, span: tuple[float, float], y: float, rise: tuple[float, float]
) -> list[Solid]:
    """Hanging cloth gathered into folds; `span` is from x to x, `rise` from z to z."""
    (x0, x1), (z0, z1) = span, rise
    count = max(int((x1 - x0) / 0.07), 2)
    step = (x1 - x0) / count
    return [
        cushion(finish, (x, y, z0), (step * 1.05, 0.05, z1 - z0), 0.024)
        for x in x0 + step * (np.arange(count) + 0.5)
    ]


def _tap(shop: Workshop, x: float, y: float, z: float) -> list[Solid]:
    spout = rods(shop.metal, [(x, y, z), (x, y, z + 0.14), (x, y + 0.13, z + 0.12)], 0.014)
    grip = [
        ellipsoid(shop.metal, (x + side, y, z + 0.03), (0.025, 0.025, 0.03))
        for side in (-0.07, 0.07)
    ]
    return spout + grip


def _stretched(solid: Solid, x: float, y: float) -> Solid:
    return Solid(solid.vertices * [x, y, 1.0], solid.faces, solid.finish)
