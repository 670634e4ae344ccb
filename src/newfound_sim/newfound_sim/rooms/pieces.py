# SPDX-License-Identifier: Apache-2.0
"""A piece of furniture, and a piece at its place in a room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from newfound_sim.rooms.shapes import Solid


class Piece:
    """Furniture in its own coordinates: back at y = 0, facing +y, middle at x = 0."""

    def __init__(self, name: str, solids: Iterable[Solid], flat: bool = False) -> None:
        self.name = name
        self.solids = tuple(solids)
        self.flat = flat  # a rug: others may stand on it
        points = np.concatenate([solid.vertices for solid in self.solids])
        # Handles may stick out a little behind or beside: the middle is the box's middle.
        self.low, self.high = points.min(axis=0), points.max(axis=0)

    @property
    def width(self) -> float:
        """Along the wall it stands at."""
        return float(self.high[0] - self.low[0])

    @property
    def depth(self) -> float:
        """Away from the wall."""
        return float(self.high[1] - self.low[1])


@dataclass(frozen=True, eq=False)
class Placed:
    """A piece whose origin stands at (x, y), turned counter-clockwise by quarter turns."""

    piece: Piece
    x: float
    y: float
    quarter_turns: int = 0
    z: float = 0.0

    @cached_property
    def box(self) -> np.ndarray:
        """Lowest and highest corner in the room, [2, 3]."""
        corners = np.array([self.piece.low, self.piece.high])
        c, s = _quarter(self.quarter_turns)
        x = c * corners[:, 0] - s * corners[:, 1]
        y = s * corners[:, 0] + c * corners[:, 1]
        placed = np.stack([x + self.x, y + self.y, corners[:, 2] + self.z], axis=1)
        return np.array([placed.min(axis=0), placed.max(axis=0)])

    @property
    def facing(self) -> tuple[int, int]:
        """The direction of its front on the floor."""
        c, s = _quarter(self.quarter_turns)
        return (-s, c)

    def solids(self) -> list[Solid]:
        """Its solids in the room's coordinates."""
        turned = [solid.turned(90 * self.quarter_turns) for solid in self.piece.solids]
        return [solid.moved(self.x, self.y, self.z) for solid in turned]


def overlap(a: np.ndarray, b: np.ndarray, tolerance: float = 0.004) -> bool:
    """Whether two boxes [2, 2 or 3] share more than their touching faces."""
    return bool(np.all(a[0] < b[1] - tolerance) and np.all(b[0] < a[1] - tolerance))


def _quarter(turns: int) -> tuple[int, int]:
    """Cosine and sine of a number of quarter turns, exactly."""
    return ((1, 0), (0, 1), (-1, 0), (0, -1))[turns % 4]
