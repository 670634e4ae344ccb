# SPDX-License-Identifier: Apache-2.0
"""Shared parts of furniture (legs, fronts, cabinets), in the style of a building."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from newfound_sim.materials import Material
from newfound_sim.rooms.shapes import Point, Solid, box, cylinder, ellipsoid, revolve, rod, rods
from newfound_sim.rooms.style import Furnishing
from newfound_sim.rooms.surfaces import paint

T = TypeVar("T")
BOOK_COLOURS = tuple(
    paint(c)
    for c in (
        (0.55, 0.16, 0.14),
        (0.16, 0.25, 0.42),
        (0.2, 0.36, 0.24),
        (0.82, 0.76, 0.62),
        (0.75, 0.52, 0.18),
        (0.2, 0.2, 0.22),
        (0.86, 0.86, 0.84),
    )
)


class Workshop:
    """Makes furniture for one room in the manner of its building."""

    def __init__(self, furnishing: Furnishing, rng: np.random.Generator) -> None:
        self.style = furnishing
        self.rng = rng
        # One wood and one fabric per room: rooms look furnished, not assembled.
        self.wood = self.pick(furnishing.woods)
        self.fabric = self.pick(furnishing.fabrics)
        self.metal = furnishing.metal
        self.dark = paint((0.06, 0.06, 0.07), 0.4)
        self.white = paint((0.92, 0.92, 0.9), 0.3)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[int(self.rng.integers(len(options)))]

    def between(self, low: float, high: float) -> float:
        """A number in the range."""
        return float(self.rng.uniform(low, high))

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return bool(self.rng.random() < probability)

    def accent(self, roughness: float | None = None) -> Material:
        """Paint in one of the building's accent colours."""
        return paint(self.pick(self.style.accents), roughness)

    def legs(self, w: float, d: float, h: float, at: Point = (0, 0, 0)) -> list[Solid]:
        """What carries a top of size (w, d) at height h whose middle is over `at`."""
        x, y, z = at
        kind = self.style.legs
        spots = [
            (x + i * (w / 2 - 0.05), y + j * (d / 2 - 0.05)) for i in (-1, 1) for j in (-1, 1)
        ]
        if kind == "turned":
            profile = [(0.022, 0), (0.03, 0.1 * h), (0.018, 0.2 * h), (0.034, 0.45 * h)]
            profile += [(0.02, 0.65 * h), (0.036, 0.75 * h), (0.036, h)]
            return [revolve(self.wood, (a, b, z), profile) for a, b in spots]
        if kind == "tapered":
            return [revolve(self.wood, (a, b, z), [(0.014, 0), (0.032, h)]) for a, b in spots]
        if kind == "box":
            return [box(self.style.metal, (a, b, z), (0.05, 0.05, h)) for a, b in spots]
        frame: list[Solid] = []
        for i in (-1, 1):
            a = x + i * (w / 2 - 0.04)
            front, back = y + d / 2 - 0.04, y - d / 2 + 0.04
            loop: list[Point] = [(a, back, z + h), (a, back, z + 0.02), (a, front, z + 0.02)]
            frame += rods(self.metal, [*loop, (a, front, z + h)], 0.016)
        return frame

    def front(self, finish: Material, at: Point, w: float, h: float, drawer: bool) -> list[Solid]:
        """A cupboard door or drawer front; `at` is the lower middle of its back face."""
        x, y, z = at
        w, h = w - 0.008, h - 0.008
        parts = [box(finish, (x, y + 0.009, z), (w, 0.018, h))]
        kind = self.style.fronts
        if kind == "panelled" and min(w, h) > 0.14:
            for dx, dz, ww, hh in (
                (0, 0, w, 0.05),
                (0, h - 0.05, w, 0.05),
                (-w / 2 + 0.025, 0, 0.05, h),
                (w / 2 - 0.025, 0, 0.05, h),
            ):
                parts.append(box(finish, (x + dx, y + 0.023, z + dz), (ww, 0.012, hh)))
        if kind == "boarded" and not drawer and w > 0.2:
            for i in range(1, max(int(w / 0.11), 2)):
                gap = -w / 2 + i * w / max(int(w / 0.11), 2)
                parts.append(box(self.dark, (x + gap, y + 0.0185, z), (0.006, 0.002, h)))
        return parts + self._handle((x, y + 0.03, z), w, h, drawer)

    def cabinet(
        self,
        finish: Material,
        size: Point,
        fronts: Sequence[Sequence[str]],
        at: Point = (0, 0, 0),
        plinth: float = 0.08,
    ) -> list[Solid]:
        """A closed case; `fronts` lists columns of 'door', 'drawer' or 'open', from the top."""
        w, d, h = size
        x, y, z = at
        parts = [box(finish, (x, y + d / 2, z + plinth), (w, d, h - plinth))]
        if plinth > 0:
            parts.append(box(self.dark, (x, y + d / 2 - 0.02, z), (w - 0.02, d - 0.04, plinth)))
        column_width = w / len(fronts)
        for number, column in enumerate(fronts):
            share = {"drawer": 1.0, "door": 3.0, "open": 2.0}
            total = sum(share[kind] for kind in column)
            top = z + h
            for kind in column:
                high = (h - plinth) * share[kind] / total
                top -= high
                middle = x - w / 2 + (number + 0.5) * column_width
                spot = (middle, y + d, top + 0.004)
                if kind == "open":
                    parts.append(
                        box(
                            self.dark,
                            (middle, y + d, top + 0.02),
                            (column_width - 0.04, 0.004, high - 0.04),
                        )
                    )
                else:
                    parts += self.front(finish, spot, column_width, high, kind == "drawer")
        return parts

    def books(self, x0: float, x1: float, y: float, z: float, tallest: float) -> list[Solid]:
        """Books upright between x0 and x1, backs towards +y at y."""
        parts = []
        x = x0
        while x < x1 - 0.02:
            thick = min(self.between(0.018, 0.05), x1 - x)
            high = self.between(0.62, 0.95) * tallest
            deep = self.between(0.13, 0.19)
            spot = (x + thick / 2, y - deep / 2, z)
            parts.append(box(self.pick(BOOK_COLOURS), spot, (thick - 0.002, deep, high)))
            x += thick
            if self.chance(0.04):
                x += self.between(0.05, 0.2)
        return parts

    def small_thing(self, at: Point) -> list[Solid]:
        """Something of the kind that stands around: a mug, a vase, a box, a ball."""
        kind = self.pick(("mug", "vase", "box", "ball", "stack"))
        finish = self.accent(0.3)
        x, y, z = at
        if kind == "mug":
            return [cylinder(finish, at, 0.04, 0.09)]
        if kind == "vase":
            return [
                revolve(
                    finish,
                    at,
                    [(0.03, 0), (0.06, 0.07), (0.05, 0.14), (0.025, 0.19), (0.035, 0.22)],
                )
            ]
        if kind == "box":
            return [box(finish, at, (self.between(0.08, 0.2), 0.12, self.between(0.05, 0.14)))]
        if kind == "ball":
            return [ellipsoid(finish, (x, y, z + 0.06), (0.06, 0.06, 0.06))]
        stack = []
        for level in range(int(self.rng.integers(2, 6))):
            size = (self.between(0.14, 0.2), self.between(0.18, 0.24), 0.03)
            stack.append(box(self.pick(BOOK_COLOURS), (x, y, z + 0.03 * level), size))
        return stack

    def lamp_shade(self, at: Point, radius: float, height: float) -> Solid:
        """A fabric lamp shade that shines when lamps are on."""
        shade = paint((0.95, 0.9, 0.78))
        profile = [(radius, 0), (0.65 * radius, height)]
        solid = revolve(shade, at, profile)
        return Solid(solid.vertices, solid.faces, shade, lamp=True)

    def _handle(self, at: Point, w: float, h: float, drawer: bool) -> list[Solid]:
        x, y, z = at
        kind = self.style.handle
        if kind == "none":
            return []
        side = 0.0 if drawer else (w / 2 - 0.05) * (1 if x < 0 else -1)
        middle = z + (h / 2 if drawer or h > 1.2 else h - 0.1)
        if kind == "bar":
            reach = min(0.3 * w if drawer else 0.08, 0.09)
            a, b = (x + side - reach, x + side + reach) if drawer else (x + side, x + side)
            za, zb = (middle, middle) if drawer else (middle - reach, middle + reach)
            return [rod(self.metal, (a, y, za), (b, y, zb), 0.007)]
        radius = 0.018 if kind == "knob" else 0.022
        finish = self.wood if kind == "knob" else self.metal
        return [ellipsoid(finish, (x + side, y - 0.004, middle), (radius, 0.014, radius))]
