# SPDX-License-Identifier: Apache-2.0
"""A room: its plan, its solids, its furniture. Made from names and a seed, always the same."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from newfound_sim.rooms.buildings import style_of
from newfound_sim.rooms.fixtures import hang_curtains, hang_lamps
from newfound_sim.rooms.furniture.workshop import Workshop
from newfound_sim.rooms.layout import Layout
from newfound_sim.rooms.names import check
from newfound_sim.rooms.pieces import Placed
from newfound_sim.rooms.plan import Plan, draw_plan
from newfound_sim.rooms.programs import furnish
from newfound_sim.rooms.shapes import Solid
from newfound_sim.rooms.shell import build_shell
from newfound_sim.rooms.style import Style


@dataclass(frozen=True, eq=False)
class Room:
    """A furnished room of a building."""

    building: str
    category: str
    seed: int
    style: Style
    plan: Plan
    shell: tuple[Solid, ...]
    furniture: tuple[Placed, ...]


def build_room(building: str, category: str, seed: int) -> Room:
    """The room of this category and number in a building."""
    style = style_of(building)
    rng = generator(building, check("category", category), seed)
    plan = draw_plan(category, style.shell, rng)
    shop = Workshop(style.furnishing, rng)
    layout = Layout(plan, rng)
    hang_lamps(layout, category, style.shell, shop)
    hang_curtains(layout, category, style.shell, shop)
    furnish(category, layout, style.shell, shop)
    plates = category == "corridor"
    shell = build_shell(plan, category, style, shop, plates)
    return Room(building, category, seed, style, plan, tuple(shell), tuple(layout.placed))


def generator(*names: str | int) -> np.random.Generator:
    """Random numbers that depend on names and numbers alone, in every process alike."""
    return np.random.default_rng([zlib.crc32(str(name).encode()) for name in names])
