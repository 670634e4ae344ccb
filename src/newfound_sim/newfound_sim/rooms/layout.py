# SPDX-License-Identifier: Apache-2.0
"""Finds places for furniture: at walls, in corners, in the middle, without collisions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from newfound_sim.rooms.pieces import Piece, Placed, overlap
from newfound_sim.rooms.plan import Opening, Plan

GAP = 0.02  # between a piece and the wall behind it, metres
DOOR_CLEARANCE = 0.95
TRIES = 40
ALL_WALLS = (0, 1, 2, 3)


class Layout:
    """A room being furnished. Methods that place return what they placed, or None."""

    def __init__(self, plan: Plan, rng: np.random.Generator) -> None:
        self.plan = plan
        self.rng = rng
        self.placed: list[Placed] = []
        # Floor that must stay free, [2, 2] rectangles: before doors and before furniture.
        self.kept_free = [self._before_door(o) for o in plan.openings if o.kind == "door"]

    def at_wall(
        self,
        piece: Piece,
        walls: Sequence[int] = ALL_WALLS,
        clearance: float = 0.0,
        corner: bool = False,
    ) -> Placed | None:
        """Stand a piece with its back to one of the walls; `clearance` stays free before it."""
        for _ in range(TRIES):
            wall = int(self.rng.choice(np.asarray(walls)))
            slack = self.plan.length(wall) - piece.width - 2 * GAP
            if slack < 0:
                continue
            share = float(self.rng.choice([0.0, 1.0])) if corner else float(self.rng.random())
            along = GAP + piece.width / 2 + share * slack
            found = self.try_at(piece, wall, along, clearance=clearance)
            if found:
                return found
        return None

    def try_at(
        self, piece: Piece, wall: int, along: float, height: float = 0.0, clearance: float = 0.0
    ) -> Placed | None:
        """Put a piece at one certain place of a wall, its base at `height`, if it fits."""
        middle = (piece.low[0] + piece.high[0]) / 2
        x, y = self.plan.at_wall(wall, along - middle, GAP - min(float(piece.low[1]), 0.0))
        placed = Placed(piece, x, y, wall, height)
        front = self._before(placed, clearance) if clearance else None
        if not self.fits(placed) or self._covers_opening(placed, wall):
            return None
        if front is not None and not self._floor_is_free(front):
            return None
        return self._accept(placed, front)

    def on_wall(
        self, piece: Piece, height: float, walls: Sequence[int] = ALL_WALLS
    ) -> Placed | None:
        """Hang a piece with its lower edge at a height."""
        for _ in range(TRIES):
            wall = int(self.rng.choice(np.asarray(walls)))
            slack = self.plan.length(wall) - piece.width - 0.2
            if slack < 0:
                continue
            along = 0.1 + piece.width / 2 + float(self.rng.random()) * slack
            found = self.try_at(piece, wall, along, height)
            if found:
                return found
        return None

    def above(self, below: Placed, piece: Piece, height: float) -> Placed | None:
        """Hang a piece over one that stands at a wall."""
        return self.try_at(piece, below.quarter_turns, self.along(below), height)

    def beside(self, neighbour: Placed, piece: Piece, gap: float = 0.05) -> Placed | None:
        """Stand a piece at the same wall, next to a neighbour, on either side."""
        reach = (neighbour.piece.width + piece.width) / 2 + gap
        for side in self.rng.permutation([-1, 1]):
            spot = self.along(neighbour) + side * reach
            found = self.try_at(piece, neighbour.quarter_turns, spot)
            if found:
                return found
        return None

    def before(self, other: Placed, piece: Piece, gap: float, turned: int = 0) -> Placed | None:
        """Stand a piece in front of another, facing as it does or turned."""
        middle = other.box[:, :2].mean(axis=0)
        reach = other.piece.depth / 2 + gap + piece.depth / 2
        x, y = middle + np.array(other.facing) * reach
        placed = centred(piece, float(x), float(y), other.quarter_turns + turned)
        return self._accept(placed) if self.fits(placed) else None

    def in_the_middle(self, piece: Piece, clearance: float = 0.4) -> Placed | None:
        """Stand a piece free in the room with floor all around it."""
        w, d = self.plan.width, self.plan.depth
        for _ in range(TRIES):
            turns = int(self.rng.integers(4))
            x, y = (float(v) for v in self.rng.normal([w / 2, d / 2], [w / 8, d / 8]))
            placed = centred(piece, x, y, turns)
            around = placed.box[:, :2] + [[-clearance] * 2, [clearance] * 2]
            if self.fits(placed) and self._floor_is_free(around):
                return self._accept(placed)
        return None

    def fits(self, placed: Placed) -> bool:
        """Whether it stays within the walls and off everything else."""
        box = placed.box
        if not within_walls(placed, self.plan):
            return False
        if any(overlap(box, other.box) for other in self.placed if not other.piece.flat):
            return False
        low = box[0, 2] < 0.6 and not placed.piece.flat
        return not (low and any(overlap(box[:, :2], free) for free in self.kept_free))

    def along(self, placed: Placed) -> float:
        """Where along its wall the middle of a piece stands."""
        middle = placed.box[:, :2].mean(axis=0)
        w, d = self.plan.width, self.plan.depth
        coordinates = (middle[0], middle[1], w - middle[0], d - middle[1])
        return float(coordinates[placed.quarter_turns])

    def add(self, placed: Placed) -> None:
        """Put something where it is known to fit: lamps, curtains, rugs."""
        self.placed.append(placed)

    def _accept(self, placed: Placed, front: np.ndarray | None = None) -> Placed:
        self.placed.append(placed)
        if front is not None:
            self.kept_free.append(front)
        return placed

    def _floor_is_free(self, rectangle: np.ndarray) -> bool:
        limit = np.array([self.plan.width, self.plan.depth])
        if np.any(rectangle[0] < -0.3) or np.any(rectangle[1] > limit + 0.3):
            return False
        standing = [p.box[:, :2] for p in self.placed if p.box[0, 2] < 1.5 and not p.piece.flat]
        return not any(overlap(rectangle, other) for other in standing)

    def _before(self, placed: Placed, clearance: float) -> np.ndarray:
        """The strip of floor before the front of a piece."""
        box, facing = placed.box[:, :2], np.array(placed.facing)
        middle, half = box.mean(axis=0), (box[1] - box[0]) / 2
        centre = middle + facing * (np.abs(facing) @ half + clearance / 2)
        reach = np.where(facing != 0, clearance / 2, half)
        return np.array([centre - reach, centre + reach])

    def _before_door(self, opening: Opening) -> np.ndarray:
        left, right = opening.span
        corners = [
            self.plan.at_wall(opening.wall, left, 0.0),
            self.plan.at_wall(opening.wall, right, DOOR_CLEARANCE),
        ]
        return np.array([np.min(corners, axis=0), np.max(corners, axis=0)])

    def _covers_opening(self, placed: Placed, wall: int) -> bool:
        """Whether a piece at the wall would stand before a door or window."""
        low, high = placed.box[0, 2], placed.box[1, 2]
        along, half = self.along(placed), placed.piece.width / 2
        for opening in self.plan.on_wall(wall):
            left, right = opening.span
            beside = along + half <= left - 0.02 or along - half >= right + 0.02
            # A desk may stand under a window as long as it leaves most of it free.
            below = high <= opening.bottom + (0.35 if opening.kind == "window" else 0.0)
            if not (beside or below or low >= opening.top):
                return True
        return False


def centred(piece: Piece, x: float, y: float, turns: int, z: float = 0.0) -> Placed:
    """A piece with the middle of its box over (x, y)."""
    at_origin = Placed(piece, 0.0, 0.0, turns % 4).box[:, :2].mean(axis=0)
    return Placed(piece, x - float(at_origin[0]), y - float(at_origin[1]), turns % 4, z)


def within_walls(placed: Placed, plan: Plan) -> bool:
    """Whether a piece is inside the room with all of its box."""
    limit = np.array([plan.width, plan.depth, plan.height])
    return bool(np.all(placed.box[0] > -1e-6) and np.all(placed.box[1] < limit + 1e-6))
