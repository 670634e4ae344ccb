# SPDX-License-Identifier: Apache-2.0
"""Three lightings of a room: a grey day, the night with lamps on, and the sun in the windows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from newfound_sim.lights import Light, Panel, Sun
from newfound_sim.materials import Colour, Material
from newfound_sim.rooms.names import check
from newfound_sim.rooms.room import Room, generator
from newfound_sim.rooms.shapes import Solid
from newfound_sim.rooms.shell import DARK_GLASS, window_panes

CLOUDY_SKY: Colour = (0.9, 0.95, 1.0)
BLUE_SKY = (1.5, 1.9, 2.6)  # radiance
CLOUDY_GLOW: Colour = (0.08, 0.088, 0.1)
NIGHT_GLOW: Colour = (0.075, 0.056, 0.038)
SUNNY_GLOW: Colour = (0.14, 0.14, 0.145)
SKY_DISTANCE = 15.0  # metres from the windows, so that the sun can come in above


@dataclass(frozen=True, eq=False)
class Illumination:
    """What makes a room bright."""

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
