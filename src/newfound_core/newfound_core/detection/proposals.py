# SPDX-License-Identifier: Apache-2.0
"""Proposers: an image in, boxes of what may be an object out. The simplest: the whole image."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from newfound_core.errors import DataError


@dataclass(frozen=True)
class Proposals:
    """Where objects may be."""

    boxes: np.ndarray  # float32 [N, 4]: left, top, right, bottom in pixels, inside the image
    objectness: np.ndarray  # float32 [N], 0 to 1: how sure it is that this is an object

    def __post_init__(self) -> None:
        if self.boxes.shape != (len(self.objectness), 4):
            raise DataError(
                f"boxes of shape {self.boxes.shape} do not fit {len(self.objectness)} scores"
            )

    def __len__(self) -> int:
        return len(self.boxes)

    @classmethod
    def none(cls) -> "Proposals":
        """Nothing was found."""
        return cls(np.zeros((0, 4), np.float32), np.zeros(0, np.float32))


class Proposer(Protocol):
    """Finds objects without naming them."""

    needs_depth: bool
    min_objectness: float  # regions below are no objects, unless configured otherwise

    def propose(self, rgb: np.ndarray, depth: np.ndarray | None) -> Proposals:
        """Boxes, best first.

        `rgb` is uint8 [H, W, 3]; `depth` is in metres, float32, of the same view, maybe of
        another size, not finite or 0 where nothing was measured; None if there is none.
        """
        ...


class WholeImage:
    """One box: the image."""

    needs_depth = False
    min_objectness = 0.0

    def propose(self, rgb: np.ndarray, depth: np.ndarray | None) -> Proposals:
        """The whole image, for certain."""
        height, width = rgb.shape[:2]
        return Proposals(np.array([[0, 0, width, height]], np.float32), np.ones(1, np.float32))
