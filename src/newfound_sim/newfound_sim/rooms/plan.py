# SPDX-License-Identifier: Apache-2.0
"""The plan of an empty room: a rectangle with doors and windows in its four walls.

Walls are numbered by the quarter turns of what stands at them: 0 south (y = 0), 1 east,
2 north, 3 west. Along each wall runs a coordinate that grows to the right of someone who
stands with the back to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from newfound_sim.rooms.style import Shell

SIZES = {  # metres: width from, to, depth from, to, before the building's own scale
    "bathroom": (2.3, 3.0, 2.7, 3.6),
    "bedroom": (3.3, 4.3, 3.7, 4.8),
    "kitchen": (3.2, 4.2, 3.5, 4.8),
    "living_room": (4.4, 5.6, 4.6, 6.2),
    "office": (3.6, 4.8, 3.8, 5.2),
}


@dataclass(frozen=True)
class Opening:
    """A door or window: a rectangle in a wall."""

    kind: Literal["door", "window"]
    wall: int
    middle: float  # along the wall
    width: float
    bottom: float
    top: float

    @property
    def span(self) -> tuple[float, float]:
        """Where it begins and ends along the wall."""
        return self.middle - self.width / 2, self.middle + self.width / 2


@dataclass(frozen=True)
class Plan:
    """Size and openings of a room."""

    width: float  # along x
    depth: float  # along y
    height: float
    openings: tuple[Opening, ...]

    def length(self, wall: int) -> float:
        """How long a wall is."""
        return self.width if wall % 2 == 0 else self.depth

    def corner(self, wall: int) -> tuple[float, float]:
        """Where the wall's coordinate begins."""
        return ((0, 0), (self.width, 0), (self.width, self.depth), (0, self.depth))[wall]

    def at_wall(self, wall: int, along: float, away: float = 0.0) -> tuple[float, float]:
        """The point on the floor at a place along a wall and some way off it."""
        x, y = self.corner(wall)
        right = ((1, 0), (0, 1), (-1, 0), (0, -1))[wall]
        inward = ((0, 1), (-1, 0), (0, -1), (1, 0))[wall]
        return (
            x + right[0] * along + inward[0] * away,
            y + right[1] * along + inward[1] * away,
        )

    def on_wall(self, wall: int, kind: str | None = None) -> list[Opening]:
        """The openings of a wall, in order."""
        found = [o for o in self.openings if o.wall == wall and kind in (None, o.kind)]
        return sorted(found, key=lambda opening: opening.middle)


def draw_plan(category: str, shell: Shell, rng: np.random.Generator) -> Plan:
    """A plan of a room of the category in the manner of the building."""
    height = float(rng.uniform(*shell.heights))
    if category == "corridor":
        return _corridor(shell, height, rng)
    low_w, high_w, low_d, high_d = SIZES[category]
    width = float(rng.uniform(low_w, high_w)) * shell.size
    depth = float(rng.uniform(low_d, high_d)) * shell.size
    openings = [_door(int(rng.choice([0, 1, 3])), width, depth, rng)]
    openings += _windows(category, width, height, shell, rng)
    return Plan(width, depth, height, tuple(openings))


def _corridor(shell: Shell, height: float, rng: np.random.Generator) -> Plan:
    width = float(rng.uniform(*shell.corridor_width))
    depth = float(rng.uniform(9.0, 15.0)) * shell.size
    openings = []
    for wall in (1, 3):
        spacing = float(rng.uniform(2.4, 3.4))
        for middle in np.arange(spacing / 2 + rng.uniform(0, 0.8), depth - 0.8, spacing):
            openings.append(Opening("door", wall, float(middle), 0.95, 0.0, 2.05))
    if rng.random() < 0.6:
        high = min(shell.sill + shell.window_size[1], height - 0.2)
        wide = min(shell.window_size[0], width - 0.6)
        openings.append(Opening("window", 2, width / 2, wide, shell.sill, high))
    else:
        openings.append(Opening("door", 2, width / 2, min(1.3, width - 0.5), 0.0, 2.1))
    return Plan(width, depth, height, tuple(openings))


def _door(wall: int, width: float, depth: float, rng: np.random.Generator) -> Opening:
    length = width if wall % 2 == 0 else depth
    # Beside walls away from the window: doors open near a corner.
    near, far = 0.65, length - 0.65
    middle = {0: (near, far), 1: (near, near), 3: (far, far)}[wall]
    return Opening("door", wall, float(rng.choice(middle)), 0.9, 0.0, 2.03)


def _windows(
    category: str, length: float, height: float, shell: Shell, rng: np.random.Generator
) -> list[Opening]:
    wide, high = shell.window_size
    sill = max(shell.sill, 0.95) if category == "kitchen" else shell.sill
    if category == "bathroom":
        wide, high, sill = min(wide, 0.9), min(high, 0.8), 1.3
    top = min(sill + high, height - 0.15)
    wide = min(wide, length - 1.0)
    count = max(int((length - 0.6) // (wide + 0.6)), 1)
    if category in ("bathroom", "kitchen"):
        count = 1
    step = length / count
    shift = float(rng.uniform(-0.1, 0.1))
    return [Opening("window", 2, (i + 0.5) * step + shift, wide, sill, top) for i in range(count)]
