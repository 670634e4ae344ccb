# SPDX-License-Identifier: Apache-2.0
"""Office furniture."""

from __future__ import annotations

import numpy as np

from newfound_sim.rooms import pictures
from newfound_sim.rooms.furniture.common import table_lamp, table_top
from newfound_sim.rooms.furniture.workshop import Workshop
from newfound_sim.rooms.pieces import Piece
from newfound_sim.rooms.shapes import (
    Solid,
    box,
    cushion,
    cylinder,
    laid_flat,
    named,
    panel,
    picture,
    rod,
)


def desk(shop: Workshop) -> Piece:
    """A desk at the wall with a computer, papers and an office chair in front."""
    w, d, h = shop.between(1.3, 1.8), shop.between(0.7, 0.85), 0.74
    parts = table_top(shop, w, d, h, d / 2)
    side = shop.pick((-1, 1))
    drawers = shop.cabinet(
        shop.wood, (0.4, d - 0.15, h - 0.1), [("drawer",) * 3], (side * (w / 2 - 0.3), 0.05, 0)
    )
    screen = -side * 0.12 * w
    parts += drawers + monitor(shop, screen, 0.22, h)
    if shop.chance(0.35):
        parts += monitor(shop, screen + side * 0.58, 0.22, h)
    parts.append(laid_flat(pictures.keyboard(), (screen, 0.52, h + 0.012), (0.42, 0.14)))
    parts.append(box(shop.dark, (screen, 0.52, h), (0.43, 0.15, 0.011)))
    parts.append(cushion(shop.dark, (screen + 0.3, 0.5, h), (0.06, 0.1, 0.03), 0.014))
    parts += _desk_clutter(shop, w, d, h)
    parts += office_chair(shop, screen, d + 0.22, shop.between(150, 210))
    return Piece("desk", parts)


def monitor(shop: Workshop, x: float, y: float, z: float) -> list[Solid]:
    """A computer screen on its foot, facing +y."""
    w, h = shop.between(0.48, 0.6), 0.33
    return [
        box(shop.dark, (x, y - 0.03, z), (0.22, 0.18, 0.012)),
        rod(shop.dark, (x, y - 0.05, z), (x, y - 0.05, z + 0.3), 0.02),
        box(shop.dark, (x, y, z + 0.12), (w, 0.03, h)),
        picture(pictures.desktop(shop.rng), (x, y + 0.016, z + 0.135), (w - 0.03, h - 0.03)),
    ]


def office_chair(shop: Workshop, x: float, y: float, turned: float) -> list[Solid]:
    """A swivel chair on five castors over (x, y)."""
    fabric = shop.pick((shop.fabric, shop.style.leather))
    parts = []
    for spoke in range(5):
        a = 2 * np.pi * spoke / 5
        tip = (0.28 * np.cos(a), 0.28 * np.sin(a), 0.06)
        parts.append(rod(shop.dark, (0, 0, 0.1), tip, 0.018))
        parts.append(cylinder(shop.dark, (tip[0], tip[1], 0), 0.028, 0.05))
    parts.append(rod(shop.metal, (0, 0, 0.08), (0, 0, 0.42), 0.028))
    parts.append(cushion(fabric, (0, 0, 0.42), (0.5, 0.48, 0.09), 0.04))
    tall = 0.7 if shop.style.fronts in ("panelled", "slab") else 0.5
    back = cushion(fabric, (0, -0.25, 0.58), (0.46, 0.07, tall), 0.035)
    parts.append(back)
    parts.append(rod(shop.dark, (0, -0.2, 0.44), (0, -0.28, 0.68), 0.02))
    for side in (-0.28, 0.28):
        parts.append(box(shop.dark, (side, 0.0, 0.64), (0.05, 0.28, 0.03)))
        parts.append(rod(shop.dark, (side, 0, 0.46), (side, 0, 0.65), 0.014))
    return named("chair", [part.turned(turned).moved(x, y) for part in parts])


def filing_cabinet(shop: Workshop) -> Piece:
    """Drawers for folders, steel or wood."""
    finish = shop.style.appliances if shop.style.legs in ("frame", "box") else shop.wood
    rows = int(shop.rng.integers(2, 5))
    return Piece(
        "filing_cabinet",
        shop.cabinet(finish, (0.45, 0.6, 0.12 + 0.31 * rows), [("drawer",) * rows], plinth=0.04),
    )


def binder_shelf(shop: Workshop) -> Piece:
    """A high shelf of ring binders above closed doors."""
    w, d, h = shop.between(0.8, 1.2), 0.4, 1.95
    low = 0.75
    parts = shop.cabinet(shop.wood, (w, d, low), [("door",), ("door",)])
    parts += [box(shop.wood, (x, d / 2, low), (0.025, d, h - low)) for x in (-w / 2, w / 2)]
    parts.append(box(shop.wood, (0, 0.006, low), (w, 0.012, h - low)))
    for z in np.linspace(low, h - 0.025, 4):
        parts.append(box(shop.wood, (0, d / 2, z), (w, d, 0.025)))
        if z < h - 0.1:
            parts += _binders(shop, w, d, z + 0.025)
    return Piece("binder_shelf", parts)


def whiteboard(shop: Workshop) -> Piece:
    """A whiteboard for the wall."""
    w, h = shop.between(1.2, 1.8), shop.between(0.9, 1.1)
    parts = [box(shop.metal, (0, 0.01, 0), (w, 0.02, h))]
    parts.append(picture(pictures.whiteboard(shop.rng), (0, 0.021, 0.02), (w - 0.04, h - 0.04)))
    parts.append(box(shop.metal, (0, 0.04, 0.0), (0.6 * w, 0.06, 0.015)))
    return Piece("whiteboard", parts)


def printer(shop: Workshop) -> Piece:
    """A copier on the floor."""
    parts = [cushion(shop.white, (0, 0.3, 0), (0.55, 0.55, 0.75), 0.03)]
    parts.append(box(shop.dark, (0, 0.3, 0.75), (0.5, 0.5, 0.03)))
    parts.append(cushion(shop.white, (0, 0.28, 0.78), (0.54, 0.5, 0.16), 0.03))
    parts.append(box(shop.dark, (0, 0.578, 0.52), (0.44, 0.01, 0.04)))
    parts.append(panel(shop.dark, (0.15, 0.55, 0.84), (0.2, 0.05, 0.1), 30))
    return Piece("printer", parts)


def _binders(shop: Workshop, w: float, d: float, z: float) -> list[Solid]:
    parts = []
    x = -w / 2 + 0.04
    while x < w / 2 - 0.1:
        thick = shop.pick((0.05, 0.075))
        if shop.chance(0.55 + 0.4 * shop.style.clutter):
            finish = shop.pick((shop.dark, shop.accent(0.5), shop.white))
            parts.append(box(finish, (x + thick / 2, d - 0.17, z), (thick - 0.006, 0.28, 0.31)))
            parts.append(
                box(shop.white, (x + thick / 2, d - 0.029, z + 0.1), (thick - 0.03, 0.003, 0.12))
            )
        x += thick
    return parts


def _desk_clutter(shop: Workshop, w: float, d: float, h: float) -> list[Solid]:
    parts = []
    for _ in range(int(2 + 6 * shop.style.clutter)):
        spot = (shop.between(-0.45, 0.45) * w, shop.between(0.45, 0.9) * d, h)
        if shop.chance(0.6):
            paper = box(shop.white, (0, 0, 0), (0.21, 0.297, 0.004)).turned(shop.between(0, 90))
            if abs(spot[0]) < w / 2 - 0.2 and spot[1] < d - 0.2:
                parts.append(paper.moved(*spot))
        elif abs(spot[0]) < w / 2 - 0.15 and spot[1] < d - 0.15:
            parts += shop.small_thing(spot)
    if shop.chance(0.5):
        parts += table_lamp(shop, shop.pick((-1, 1)) * (w / 2 - 0.15), 0.15, h)
    return parts
