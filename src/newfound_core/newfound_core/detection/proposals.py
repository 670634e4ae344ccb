# SPDX-License-Identifier: Apache-2.0
"""Proposers: an image in, boxes of what may be an object out. The simplest: the whole image."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from newfound_core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from newfound_core.detection.support_surfaces import Plane

Source = Literal["depth", "colour", "depth+colour", "image"]  # what a proposal was made of


@dataclass(frozen=True)
class CameraView:
    """How a depth camera sees: what camera_info and the mounting tell, whatever its resolution."""

    focal_x: float = 0.82  # in widths of the image: that of a usual depth camera
    focal_y: float = 0.82  # in widths, too
    centre_x: float = 0.5  # of the width
    centre_y: float = 0.5  # of the height
    up: tuple[float, float, float] | None = None  # unit vector in the optical frame, if known

    def __post_init__(self) -> None:
        if not (self.focal_x > 0 and self.focal_y > 0):
            raise ConfigError(
                f"focal lengths must be positive, got {self.focal_x} and {self.focal_y}"
            )

    @staticmethod
    def up_at_pitch(degrees: float) -> tuple[float, float, float]:
        """Up direction of a camera that looks down by an angle, without roll."""
        pitch = math.radians(degrees)
        return (0.0, -math.cos(pitch), -math.sin(pitch))


@dataclass(frozen=True)
class Segments:
    """Numbered regions in a window of a reduced depth image."""

    labels: np.ndarray  # int32 [h, w]; 0 is no object
    top: int  # of the window, in the reduced image
    left: int
    boxes: np.ndarray  # float32 [N, 4], in pixels of the colour image
    numbers: np.ndarray  # int [N]: in `labels`, of each box


@dataclass(frozen=True)
class SegmentedDepth:
    """What a depth proposer has found in a frame besides boxes; for measuring positions."""

    planes: list["Plane"]  # support surfaces, the best first
    inverse: np.ndarray  # 1/m, float32 [H, W]: reduced inverse depth; 0 where there is none
    segments: Segments | None

    def label_at(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Numbers of the segments at all pairs of rows and columns of the reduced image."""
        assert self.segments is not None
        labels = np.pad(self.segments.labels, 1)
        rows = np.clip(rows - self.segments.top + 1, 0, labels.shape[0] - 1)
        columns = np.clip(columns - self.segments.left + 1, 0, labels.shape[1] - 1)
        return labels[rows[:, None], columns]


@dataclass(frozen=True)
class Proposals:
    """Where objects may be."""

    boxes: np.ndarray  # float32 [N, 4]: left, top, right, bottom in pixels, inside the image
    objectness: np.ndarray  # float32 [N], 0 to 1: how sure it is that this is an object
    sources: tuple[Source, ...] = ()  # of each; colour if nothing is said
    scene: SegmentedDepth | None = None  # of the frame, if depth was searched

    def __post_init__(self) -> None:
        if not self.sources:
            object.__setattr__(self, "sources", ("colour",) * len(self.objectness))
        if len(self.sources) != len(self.objectness):
            raise DataError(
                f"{len(self.sources)} sources do not fit {len(self.objectness)} proposals"
            )
        if self.boxes.shape != (len(self.objectness), 4):
            raise DataError(
                f"boxes of shape {self.boxes.shape} do not fit {len(self.objectness)} scores"
            )

    def __len__(self) -> int:
        return len(self.boxes)

    def take(self, indices: np.ndarray) -> "Proposals":
        """Some of them, in this order."""
        return Proposals(
            self.boxes[indices],
            self.objectness[indices],
            tuple(self.sources[i] for i in indices),
            self.scene,
        )

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
        box = np.array([[0, 0, width, height]], np.float32)
        return Proposals(box, np.ones(1, np.float32), ("image",))
