# SPDX-License-Identifier: Apache-2.0
"""Ceiling lamps and curtains: what is built in before the furniture comes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from newfound_sim.rooms.furniture.bathroom import folds
from newfound_sim.rooms.furniture.workshop import Workshop
from newfound_sim.rooms.layout import Layout, centred
from newfound_sim.rooms.pieces import Piece
from newfound_sim.rooms.shapes import Solid, box, ellipsoid, revolve, rod
from newfound_sim.rooms.style import Shell
from newfound_sim.rooms.surfaces import paint

MILK_GLASS = paint((0.93, 0.92, 0.88), 0.4)


def hang_lamps(layout: Layout, category: str, shell: Shell, shop: Workshop) -> None:
    """Spread the building's ceiling lamps evenly over the room."""
    plan = layout.plan
    kind = shop.style.lamp
    spacing = 2.6 if kind in ("panel", "industrial") or category == "corridor" else 9.0
    columns = max(round(plan.width / spacing), 1)
    rows = max(round(plan.depth / spacing), 1)
    ceiling = plan.height - (0.1 if shell.beams else 0.0)
    for i in range(columns):
        for j in range(rows):
            piece = Piece("ceiling_lamp", _lamp(shop, kind, ceiling, category))
            x, y = (i + 0.5) * plan.width / columns, (j + 0.5) * plan.depth / rows
            layout.add(centred(piece, x, y, 0))


def hang_curtains(layout: Layout, category: str, shell: Shell, shop: Workshop) -> None:
    """Gather curtains at both sides of each window, in rooms where people live."""
    if category in ("bathroom", "corridor", "kitchen") or not shop.chance(shell.curtains):
        return
    finish = shop.pick((*shop.style.linen, *shop.style.fabrics))
    for opening in layout.plan.openings:
        if opening.kind != "window":
            continue
        low, high = opening.bottom - 0.12, min(opening.top + 0.08, layout.plan.height - 0.11)
        wide = min(0.3, 0.25 * opening.width)
        for side, edge in zip((-1, 1), opening.span, strict=True):
            cloth = folds(finish, (-wide / 2, wide / 2), 0.09, (low, high))
            along = edge - side * (wide / 2 - 0.1)
            x, y = layout.plan.at_wall(opening.wall, along, 0.075)
            layout.add(centred(Piece("curtain", cloth), x, y, opening.wall))


def _lamp(shop: Workshop, kind: str, ceiling: float, category: str) -> list[Solid]:
    if kind == "panel":
        size = (1.2, 0.3) if category == "corridor" else (0.6, 0.6)
        rim = box(shop.white, (0, 0, ceiling - 0.03), (size[0] + 0.06, size[1] + 0.06, 0.03))
        return [rim, _shining(box(MILK_GLASS, (0, 0, ceiling - 0.035), (*size, 0.01)))]
    if kind == "industrial":
        drop = min(0.9, ceiling - 2.35)
        cord = rod(shop.dark, (0, 0, ceiling - drop), (0, 0, ceiling), 0.006)
        cone = [(0.2, 0), (0.16, 0.06), (0.05, 0.2), (0.03, 0.26)]
        z = ceiling - drop - 0.24
        bulb = ellipsoid(MILK_GLASS, (0, 0, z + 0.0), (0.11, 0.11, 0.05))
        return [cord, revolve(shop.dark, (0, 0, z), cone), _shining(bulb)]
    if kind == "chandelier" and category not in ("bathroom", "kitchen", "corridor"):
        return _chandelier(shop, ceiling)
    if kind == "chandelier":
        z = ceiling - min(0.5, ceiling - 2.3)
        chain = rod(shop.metal, (0, 0, z), (0, 0, ceiling), 0.008)
        return [chain, _shining(ellipsoid(MILK_GLASS, (0, 0, z - 0.1), (0.16, 0.16, 0.16)))]
    dish = revolve(MILK_GLASS, (0, 0, ceiling - 0.12), [(0.05, 0), (0.17, 0.05), (0.2, 0.12)])
    return [_shining(dish), box(shop.metal, (0, 0, ceiling - 0.01), (0.12, 0.12, 0.01))]


def _chandelier(shop: Workshop, ceiling: float) -> list[Solid]:
    z = ceiling - min(0.75, ceiling - 2.25)
    parts = [rod(shop.metal, (0, 0, z), (0, 0, ceiling), 0.01)]
    for arm in np.arange(6) * np.pi / 3:
        x, y = 0.32 * np.cos(arm), 0.32 * np.sin(arm)
        parts.append(rod(shop.metal, (0, 0, z + 0.03), (x, y, z), 0.01))
        parts.append(_shining(ellipsoid(MILK_GLASS, (x, y, z + 0.08), (0.06, 0.06, 0.08))))
    return parts


def _shining(solid: Solid) -> Solid:
    return replace(solid, lamp=True)
