# SPDX-License-Identifier: Apache-2.0
"""Kitchen furniture."""

from __future__ import annotations

import numpy as np

from newfound_sim.materials import Material
from newfound_sim.rooms import pictures
from newfound_sim.rooms.furniture.workshop import Workshop
from newfound_sim.rooms.pieces import Piece
from newfound_sim.rooms.shapes import (
    Solid,
    box,
    cushion,
    cylinder,
    laid_flat,
    revolve,
    rod,
    rods,
)
from newfound_sim.rooms.surfaces import paint

HEIGHT, DEPTH = 0.9, 0.6


def counter(shop: Workshop, width: float, finish: Material, tiles: Material) -> Piece:
    """A worktop with sink and cooker over cupboards, tiles behind and hung cupboards above."""
    modules = max(int(width / 0.6), 3)
    step = width / modules
    cooker, sink = (1, modules - 2) if modules > 3 else (0, modules - 1)
    if shop.chance(0.5):
        cooker, sink = sink, cooker
    parts = [
        box(
            shop.pick(shop.style.worktops),
            (0, DEPTH / 2, HEIGHT - 0.04),
            (width, DEPTH + 0.03, 0.04),
        )
    ]
    for module in range(modules):
        x = -width / 2 + (module + 0.5) * step
        if module == cooker:
            parts += _cooker(shop, x, step)
        else:
            fronts = [("drawer",) * 3] if shop.chance(0.3) else [("drawer", "door")]
            size = (step, DEPTH - 0.04, HEIGHT - 0.04)
            parts += shop.cabinet(finish, size, fronts, (x, 0, 0))
    parts += _sink(shop, -width / 2 + (sink + 0.5) * step)
    parts.append(box(tiles, (0, 0.006, HEIGHT), (width, 0.012, 0.52)))
    parts += _hung(shop, width, modules, cooker, finish)
    parts += _on_the_worktop(shop, width, modules, (cooker, sink))
    return Piece("kitchen_counter", parts)


def fridge(shop: Workshop) -> Piece:
    """A fridge with a freezer below."""
    w, d, h = 0.6, 0.62, shop.between(1.5, 1.9)
    body = shop.style.appliances
    parts = [box(body, (0, d / 2, 0.03), (w, d, h - 0.03))]
    split = shop.between(0.3, 0.4) * h
    for low, high in ((0.05, split - 0.008), (split + 0.008, h)):
        parts.append(cushion(body, (0, d + 0.025, low), (w, 0.05, high - low), 0.015))
        grip = (low + 0.75 * (high - low)) if low < split else low + 0.2
        parts.append(
            rod(
                shop.metal,
                (-w / 2 + 0.06, d + 0.07, grip - 0.13),
                (-w / 2 + 0.06, d + 0.07, grip + 0.13),
                0.012,
            )
        )
    for _ in range(int(6 * shop.style.clutter)):  # notes under magnets
        note = (shop.between(-0.2, 0.2), d + 0.0515, shop.between(split + 0.2, h - 0.2))
        parts.append(box(shop.pick((shop.white, shop.accent())), note, (0.08, 0.003, 0.1)))
    return Piece("fridge", parts)


def tall_cupboard(shop: Workshop, finish: Material) -> Piece:
    """A larder, with an oven built in where the building is modern."""
    w, d, h = 0.6, 0.6, 2.0
    if shop.style.fronts in ("boarded", "panelled"):
        return Piece("larder", shop.cabinet(finish, (w, d, h), [("door", "door")]))
    parts = shop.cabinet(finish, (w, d, h), [("door", "open", "door")])
    parts += _oven(shop, 0, d, 0.85, 0.56)
    return Piece("larder", parts)


def stool(shop: Workshop) -> Piece:
    """A stool."""
    parts = [part.moved(0, 0.2) for part in shop.legs(0.34, 0.34, 0.6)]
    parts.append(cylinder(shop.wood, (0, 0.2, 0.6), 0.18, 0.04))
    return Piece("stool", parts)


def _cooker(shop: Workshop, x: float, w: float) -> list[Solid]:
    body = shop.style.appliances
    parts = [box(body, (x, DEPTH / 2 - 0.02, 0.06), (w - 0.006, DEPTH - 0.04, HEIGHT - 0.1))]
    parts += _oven(shop, x, DEPTH - 0.04, 0.2, w - 0.06)
    parts.append(box(shop.dark, (x, DEPTH / 2, HEIGHT), (w - 0.04, DEPTH - 0.08, 0.008)))
    parts.append(
        laid_flat(pictures.hob(), (x, DEPTH / 2, HEIGHT + 0.0085), (w - 0.05, DEPTH - 0.1))
    )
    for knob in np.linspace(-0.2, 0.2, 5):
        at, to = (x + knob, DEPTH - 0.05, 0.8), (x + knob, DEPTH, 0.8)
        parts.append(rod(shop.dark, at, to, 0.02))
    if shop.chance(0.75):
        parts += _pot(shop, x - 0.13, DEPTH / 2 - 0.1)
    return parts


def _oven(shop: Workshop, x: float, y: float, z: float, w: float) -> list[Solid]:
    glass = paint((0.03, 0.03, 0.035), 0.08)
    return [
        box(shop.style.appliances, (x, y + 0.01, z), (w, 0.02, 0.5)),
        box(glass, (x, y + 0.022, z + 0.08), (w - 0.1, 0.006, 0.28)),
        rod(
            shop.metal,
            (x - w / 2 + 0.05, y + 0.05, z + 0.42),
            (x + w / 2 - 0.05, y + 0.05, z + 0.42),
            0.011,
        ),
    ]


def _sink(shop: Workshop, x: float) -> list[Solid]:
    steel = shop.pick((shop.style.ceramic, paint((0.62, 0.64, 0.66), 0.25)))
    hollow = paint((0.36, 0.38, 0.4), 0.25)
    parts = [box(steel, (x, 0.32, HEIGHT), (0.5, 0.44, 0.012))]
    parts.append(box(hollow, (x, 0.34, HEIGHT + 0.012), (0.4, 0.34, 0.002)))
    neck = [(x, 0.09, HEIGHT), (x, 0.09, HEIGHT + 0.28), (x, 0.2, HEIGHT + 0.32)]
    return parts + rods(shop.metal, [*neck, (x, 0.27, HEIGHT + 0.24)], 0.013)


def _hung(
    shop: Workshop, width: float, modules: int, cooker: int, finish: Material
) -> list[Solid]:
    """Cupboards on the wall and a hood over the cooker."""
    step, low, high, deep = width / modules, 1.45, 2.08, 0.33
    parts: list[Solid] = []
    shelf = shop.style.fronts in ("boarded", "slab") and shop.chance(0.4)
    for module in range(modules):
        x = -width / 2 + (module + 0.5) * step
        if module == cooker:
            hood = [box(shop.metal, (x, 0.22, low), (step - 0.02, 0.44, 0.07))]
            hood.append(box(shop.metal, (x, 0.14, low + 0.07), (0.25, 0.25, high - low - 0.07)))
            parts += hood
        elif shelf:
            for z in (low, low + 0.35):
                parts.append(box(shop.wood, (x, 0.13, z), (step, 0.26, 0.03)))
                for dx in (-0.15, 0.0, 0.15):
                    parts += _jar(shop, x + dx, 0.13, z + 0.03)
        else:
            size = (step, deep, high - low)
            parts += shop.cabinet(finish, size, [("door",)], (x, 0, low), plinth=0)
    return parts


def _on_the_worktop(
    shop: Workshop, width: float, modules: int, busy: tuple[int, int]
) -> list[Solid]:
    step = width / modules
    parts: list[Solid] = []
    for module in range(modules):
        x = -width / 2 + (module + 0.5) * step
        if module in busy:
            continue
        if shop.chance(0.35):
            parts += _kettle(shop, x, 0.25)
        elif shop.chance(0.35):
            parts.append(
                cushion(shop.style.appliances, (x, 0.24, HEIGHT), (0.46, 0.34, 0.27), 0.015)
            )
            parts.append(box(shop.dark, (x - 0.05, 0.411, HEIGHT + 0.05), (0.28, 0.004, 0.17)))
        elif shop.chance(0.3 + 0.7 * shop.style.clutter):
            for dx in (-0.17, 0.0, 0.17):
                parts += _jar(shop, x + dx, shop.between(0.12, 0.3), HEIGHT)
    return parts


def _jar(shop: Workshop, x: float, y: float, z: float) -> list[Solid]:
    high, wide = shop.between(0.1, 0.2), shop.between(0.035, 0.055)
    finish = shop.pick((shop.accent(0.2), shop.white, shop.wood))
    return [
        cylinder(finish, (x, y, z), wide, high),
        cylinder(shop.metal, (x, y, z + high), wide, 0.02),
    ]


def _kettle(shop: Workshop, x: float, y: float) -> list[Solid]:
    body = [(0.08, 0), (0.085, 0.08), (0.06, 0.19), (0.02, 0.21)]
    finish = shop.pick((shop.metal, shop.accent(0.2)))
    grip = rods(shop.dark, [(x + 0.06, y, 1.05), (x + 0.13, y, 1.06), (x + 0.09, y, 0.94)], 0.012)
    return [revolve(finish, (x, y, HEIGHT), body), *grip]


def _pot(shop: Workshop, x: float, y: float) -> list[Solid]:
    finish = shop.pick((shop.metal, shop.accent(0.2)))
    z = HEIGHT + 0.01
    sides = [
        rod(shop.dark, (x + s * 0.1, y, z + 0.1), (x + s * 0.15, y, z + 0.1), 0.01)
        for s in (-1, 1)
    ]
    lid = revolve(
        finish, (x, y, z + 0.14), [(0.1, 0), (0.06, 0.025), (0.012, 0.03), (0.015, 0.05)]
    )
    return [cylinder(finish, (x, y, z), 0.1, 0.14), lid, *sides]
