# SPDX-License-Identifier: Apache-2.0
"""Walls, floor, ceiling, doors and windows of a room, as solids."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from newfound_sim.materials import Material
from newfound_sim.rooms import pictures
from newfound_sim.rooms.furniture.workshop import Workshop
from newfound_sim.rooms.plan import Opening, Plan
from newfound_sim.rooms.shapes import Solid, box, ellipsoid, named, picture, rod
from newfound_sim.rooms.style import Shell, Style
from newfound_sim.rooms.surfaces import paint

THICKNESS = 0.2  # of the walls
DARK_GLASS = paint((0.03, 0.035, 0.05), 0.08)


def build_shell(
    plan: Plan, category: str, style: Style, shop: Workshop, office_like: bool
) -> list[Solid]:
    """Everything of the room that is not furniture."""
    shell = style.shell
    wall = shop.pick(shell.walls.get(category, shell.walls["default"]))
    floor = shop.pick(shell.floors.get(category, shell.floors["default"]))
    w, d, h = plan.width, plan.depth, plan.height
    outside = 2 * THICKNESS
    ground = box(floor, (w / 2, d / 2, -0.1), (w + outside, d + outside, 0.1))
    roof = box(shell.ceiling, (w / 2, d / 2, h), (w + outside, d + outside, 0.1))
    parts = [*named("floor", [ground]), *named("ceiling", [roof])]
    tiles = shop.pick(shell.wall_tiles) if category == "bathroom" else None
    for number in range(4):
        local = named("wall", _wall(plan, number, wall, shell, tiles))
        for opening in plan.on_wall(number):
            made = _door(opening, shop, shell, office_like) if opening.kind == "door" else []
            local += named(opening.kind, made or _window(opening, shell))
        parts += _to_room(plan, number, local)
    if shell.beams:
        parts += named("ceiling", _beams(plan, shop.style.woods[-1]))
    return parts


def window_panes(plan: Plan, finish: Material, behind: float = 0.02) -> list[Solid]:
    """What fills the windows from outside: a luminous sky, or the dark."""
    panes: list[Solid] = []
    for number in range(4):
        local = [
            box(
                finish,
                (o.middle, -THICKNESS - behind, o.bottom),
                (o.width, 0.01, o.top - o.bottom),
            )
            for o in plan.on_wall(number, "window")
        ]
        panes += _to_room(plan, number, local)
    return panes


def _to_room(plan: Plan, wall: int, solids: list[Solid]) -> list[Solid]:
    """From a wall's own coordinates (x along, y into the room) to the room's."""
    x, y = plan.corner(wall)
    return [solid.turned(90 * wall).moved(x, y) for solid in solids]


def _wall(
    plan: Plan, number: int, finish: Material, shell: Shell, tiles: Material | None
) -> list[Solid]:
    windows, doors = plan.on_wall(number, "window"), plan.on_wall(number, "door")
    length = plan.length(number)
    layers = [(finish, -THICKNESS, 0.0, 0.0, plan.height, windows)]
    if tiles is not None:
        layers.append((tiles, 0.0, 0.008, 0.0, shell.tile_height, windows + doors))
    else:
        layers.append((shell.skirting, 0.0, 0.015, 0.0, shell.skirting_height, doors))
    parts = []
    for material, back, front, low, high, holes in layers:
        for x0, x1, z0, z1 in _around(length, low, high, holes):
            middle = ((x0 + x1) / 2, (back + front) / 2, z0)
            parts.append(box(material, middle, (x1 - x0, front - back, z1 - z0)))
    return parts


def _around(
    length: float, low: float, high: float, holes: list[Opening]
) -> Iterator[tuple[float, float, float, float]]:
    """Cut a wall (0..length, low..high) into rectangles that leave the holes free."""
    x = 0.0
    for hole in sorted(holes, key=lambda h: h.middle):
        left, right = hole.span
        yield x, left, low, high
        if hole.bottom > low:
            yield left, right, low, min(hole.bottom, high)
        if hole.top < high:
            yield left, right, hole.top, high
        x = right
    yield x, length, low, high


def _door(opening: Opening, shop: Workshop, shell: Shell, office_like: bool) -> list[Solid]:
    """A closed door in its frame."""
    x, w, h = opening.middle, opening.width, opening.top
    finish = shell.door_finish
    frame = shell.skirting if shell.door != "panelled" else finish
    parts = [box(frame, (x + side * (w / 2 - 0.04), 0.02, 0), (0.08, 0.04, h)) for side in (-1, 1)]
    parts.append(box(frame, (x, 0.02, h - 0.08), (w, 0.04, 0.08)))
    leaf = w - 0.16
    parts.append(box(finish, (x, 0.008, 0.01), (leaf, 0.016, h - 0.09)))
    if shell.door == "panelled":
        for z0, z1 in ((0.15, 0.85), (1.0, h - 0.25)):
            for side in (-1, 1):
                spot = (x + side * leaf / 4, 0.02, z0)
                parts.append(box(finish, spot, (leaf / 2 - 0.12, 0.016, z1 - z0)))
    if shell.door == "glazed":
        parts.append(
            box(paint((0.55, 0.62, 0.64), 0.1), (x, 0.018, 0.25), (leaf - 0.24, 0.006, h - 0.6))
        )
        for z in np.linspace(0.25, h - 0.37, 4):
            parts.append(box(finish, (x, 0.024, z), (leaf - 0.2, 0.012, 0.03)))
    if shell.door == "boarded":
        for i in range(1, 6):
            parts.append(
                box(shop.dark, (x - leaf / 2 + i * leaf / 6, 0.017, 0.01), (0.008, 0.002, h - 0.1))
            )
        for z in (0.25, h - 0.45):
            parts.append(box(finish, (x, 0.024, z), (leaf - 0.06, 0.018, 0.12)))
    if shell.door == "plain" and office_like:
        plate = picture(
            pictures.door_plate(shop.rng), (x + w / 2 + 0.12, 0.004, 1.5), (0.16, 0.11)
        )
        parts.append(plate)
    grip = x + leaf / 2 - 0.07
    metal = shop.style.metal
    parts.append(rod(metal, (grip, 0.01, 1.02), (grip, 0.06, 1.02), 0.012))
    if shell.door in ("plain", "glazed"):
        parts.append(rod(metal, (grip, 0.06, 1.02), (grip - 0.12, 0.06, 1.02), 0.01))
    else:
        parts.append(ellipsoid(metal, (grip, 0.07, 1.02), (0.03, 0.025, 0.03)))
    return parts


def _window(opening: Opening, shell: Shell) -> list[Solid]:
    """Frame, bars and sill in the depth of the wall."""
    x, w, z = opening.middle, opening.width, opening.bottom
    h = opening.top - z
    finish = shell.window_finish
    y, edge = -0.1, 0.05
    parts = [box(finish, (x + s * (w - edge) / 2, y, z), (edge, 0.06, h)) for s in (-1, 1)]
    parts += [box(finish, (x, y, z + lift), (w, 0.06, edge)) for lift in (0.0, h - edge)]
    upright, across = {
        "cross": (1, 1),
        "ribbon": (max(int(w / 0.8) - 1, 0), 0),
        "grid": (max(int(w / 0.42), 1), max(int(h / 0.42), 1)),
        "sash": (1, 3),
    }[shell.window]
    bar = 0.025 if shell.window == "grid" else 0.035
    for i in range(1, upright + 1):
        parts.append(box(finish, (x - w / 2 + i * w / (upright + 1), y, z), (bar, 0.05, h)))
    for i in range(1, across + 1):
        parts.append(box(finish, (x, y, z + i * h / (across + 1) - bar / 2), (w, 0.05, bar)))
    parts.append(box(finish, (x, 0.01, z - 0.03), (w + 0.12, 0.1, 0.03)))
    return parts


def _beams(plan: Plan, finish: Material) -> list[Solid]:
    count = max(int(plan.depth / 0.9), 2)
    return [
        box(
            finish,
            (plan.width / 2, (i + 0.5) * plan.depth / count, plan.height - 0.1),
            (plan.width, 0.12, 0.1),
        )
        for i in range(count)
    ]
