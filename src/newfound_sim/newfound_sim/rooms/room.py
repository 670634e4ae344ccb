# SPDX-License-Identifier: Apache-2.0
"""A furnished room and its lighting, a function of building, category and seed."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from newfound_sim.lights import Light, Panel, Sun
from newfound_sim.materials import Colour, Material
from newfound_sim.rooms.buildings import style_of
from newfound_sim.rooms.fixtures import hang_curtains, hang_lamps
from newfound_sim.rooms.furniture.workshop import Workshop
from newfound_sim.rooms.layout import Layout
from newfound_sim.rooms.names import check
from newfound_sim.rooms.pieces import Placed
from newfound_sim.rooms.plan import Plan, draw_plan
from newfound_sim.rooms.programs import furnish
from newfound_sim.rooms.shapes import Solid
from newfound_sim.rooms.shell import DARK_GLASS, build_shell, window_panes
from newfound_sim.rooms.style import Style

CLOUDY_SKY: Colour = (0.9, 0.95, 1.0)
BLUE_SKY = (1.5, 1.9, 2.6)  # radiance
CLOUDY_GLOW: Colour = (0.08, 0.088, 0.1)
NIGHT_GLOW: Colour = (0.075, 0.056, 0.038)
SUNNY_GLOW: Colour = (0.14, 0.14, 0.145)
SKY_DISTANCE = 15.0  # metres from the windows, so that the sun can come in above


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
    """Random numbers that depend on these keys only, the same in every process."""
    return np.random.default_rng([zlib.crc32(str(name).encode()) for name in names])


@dataclass(frozen=True, eq=False)
class Illumination:
    """The light of a room: lamps, sky, sun and indirect light."""

    lamp: Material | None  # finish of lamps that are on; None when they are off
    panes: tuple[Solid, ...]  # what is behind the windows
    lights: tuple[Light, ...]
    glow: Colour  # light that has bounced often, on every surface, linear


def illuminate(room: Room, lighting: str) -> Illumination:
    """Light a room; the seed of the room sets strength, colour and the sun's place."""
    check("lighting", lighting)
    rng = generator(room.building, room.category, room.seed, lighting)
    windows = [o for o in room.plan.openings if o.kind == "window"]
    lamp_is_on = lighting == "night" or not windows or room.category == "corridor"
    lamp = _lamp(room, lighting, rng) if lamp_is_on else None
    if lighting == "night":
        return Illumination(lamp, tuple(window_panes(room.plan, DARK_GLASS)), (), NIGHT_GLOW)
    if lighting == "cloudy":
        area = sum(o.width * (o.top - o.bottom) for o in windows)
        floor = room.plan.width * room.plan.depth
        # Small windows in large rooms get a brighter sky, as an eye or a camera would have it.
        strength = float(np.clip(0.9 * floor / max(area, 0.1), 4.0, 12.0) * rng.uniform(0.8, 1.2))
        sky = Material("emitter", CLOUDY_SKY, radiance=strength)
        return Illumination(lamp, tuple(window_panes(room.plan, sky)), (), CLOUDY_GLOW)
    return Illumination(lamp, (), _sunshine(room, rng), SUNNY_GLOW)


def _lamp(room: Room, lighting: str, rng: np.random.Generator) -> Material:
    glow = room.style.furnishing.glow
    strength = float(rng.uniform(7.0, 11.0)) if lighting == "night" else 6.0
    return Material("emitter", glow, radiance=strength)


def _sunshine(room: Room, rng: np.random.Generator) -> tuple[Light, ...]:
    """All windows are in the north wall: a blue sky behind them, the sun above it."""
    w, d = room.plan.width, room.plan.depth
    height = np.radians(rng.uniform(35, 50))
    side = np.radians(rng.uniform(-40, 40))
    direction = (float(np.sin(side)), float(-np.cos(side)), float(-np.tan(height)))
    top = 0.5 + SKY_DISTANCE * float(np.tan(height))  # lower than any ray into a window
    bottom = -12.0
    y = d + SKY_DISTANCE
    sky = Panel(
        centre=(w / 2, y, (top + bottom) / 2),
        target=(w / 2, d, (top + bottom) / 2),
        width=w + 60,
        height=top - bottom,
        colour=BLUE_SKY,
    )
    strength = float(rng.uniform(9, 13))
    sun = Sun(direction, (strength, 0.86 * strength, 0.62 * strength))
    return (sky, sun)
