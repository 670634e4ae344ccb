# SPDX-License-Identifier: Apache-2.0
"""Boxes of any orientation in space: how much of one is inside another."""

import math
from dataclasses import dataclass

import numpy as np

_GRID = np.stack(np.meshgrid(*[np.linspace(-0.4, 0.4, 5)] * 3), -1).reshape(-1, 3)
_MARGIN = 0.01  # m: boxes are as exact as that
_FLATTEST = 0.01  # m


@dataclass(frozen=True)
class Box:
    """A box in space."""

    centre: tuple[float, float, float]  # m
    orientation: tuple[float, float, float, float]  # unit quaternion x, y, z, w
    size: tuple[float, float, float]  # m

    @property
    def volume(self) -> float:
        """In cubic metres; what is flat has a height, too."""
        return math.prod(max(_FLATTEST, side) for side in self.size)

    def axes(self) -> np.ndarray:
        """Directions of the sides, columns of a rotation matrix [3, 3]."""
        x, y, z, w = self.orientation
        return np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )


def share_inside(inner: Box, outer: Box) -> float:
    """Share of a box that is inside another one, from 0 to 1."""
    reach = (math.hypot(*inner.size) + math.hypot(*outer.size)) / 2 + 2 * _MARGIN
    if math.dist(inner.centre, outer.centre) > reach:
        return 0.0
    points = (_GRID * inner.size) @ inner.axes().T + inner.centre
    local = np.abs((points - outer.centre) @ outer.axes())
    return float((local <= np.array(outer.size) / 2 + _MARGIN).all(1).mean())


def overlap(one: Box, other: Box) -> float:
    """Share of the smaller box that is inside the larger one."""
    small, large = sorted((one, other), key=lambda box: box.volume)
    return share_inside(small, large)
