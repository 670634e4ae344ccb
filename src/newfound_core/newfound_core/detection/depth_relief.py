# SPDX-License-Identifier: Apache-2.0
"""Objects as what stands out of the dominant plane: a table, a floor, a shelf."""

import math
from dataclasses import dataclass

import cv2
import numpy as np

from newfound_core.detection.proposals import Proposals
from newfound_core.errors import ConfigError, DataError

_WORKING_WIDTH = 320  # pixels; objects of a few centimetres are still dozens of pixels


@dataclass(frozen=True)
class DepthReliefConfig:
    """What counts as an object on a plane."""

    min_relief: float = 0.008  # how far it stands out, relative to the distance
    plane_tolerance: float = 0.005  # of the plane itself, relative to the distance
    plane_share: float = 0.2  # of the image that the plane must cover
    min_area: float = 0.0008  # share of the image
    max_area: float = 0.4
    count: int = 50

    def __post_init__(self) -> None:
        for name in ("min_relief", "plane_tolerance", "plane_share", "min_area", "max_area"):
            if not (0 < getattr(self, name) <= 1 and math.isfinite(getattr(self, name))):
                raise ConfigError(f"{name} must be in (0, 1], got {getattr(self, name)}")
        if self.min_area > self.max_area:
            raise ConfigError(f"min_area {self.min_area} is above max_area {self.max_area}")
        if self.count < 1:
            raise ConfigError(f"count must be at least 1, got {self.count}")


class DepthRelief:
    """Connected pixels in front of the plane, each group a box."""

    needs_depth = True
    min_objectness = 0.3

    def __init__(self, config: DepthReliefConfig | None = None) -> None:
        self.config = config or DepthReliefConfig()

    def propose(self, rgb: np.ndarray, depth: np.ndarray | None) -> Proposals:
        """Boxes of what stands out; none if there is no depth or no plane."""
        if depth is None:
            return Proposals.none()
        if depth.ndim != 2 or not depth.size:
            raise DataError(f"depth must be [height, width], got {list(depth.shape)}")
        inverse = inverse_depth(_reduced(depth))
        plane = dominant_plane(inverse, self.config.plane_tolerance, self.config.plane_share)
        if plane is None:
            return Proposals.none()
        # Where the plane is not in front of the camera nothing can stand on it.
        relief = np.where((plane > 0) & (inverse > 0), inverse / np.maximum(plane, 1e-9) - 1, 0)
        return self._groups(relief, rgb.shape[1], rgb.shape[0])

    def _groups(self, relief: np.ndarray, width: int, height: int) -> Proposals:
        high: np.ndarray = (relief > self.config.min_relief).astype(np.uint8)
        # Two pixels wide, no more: the shaft of a screwdriver is three.
        mask: np.ndarray = cv2.morphologyEx(high, cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))
        _, _, statistics, _ = cv2.connectedComponentsWithStats(mask, connectivity=4)
        found = statistics[1:].astype(np.float32)  # the first is what does not stand out
        share = found[:, cv2.CC_STAT_AREA] / mask.size
        found = found[(share >= self.config.min_area) & (share <= self.config.max_area)]
        left, top = found[:, cv2.CC_STAT_LEFT], found[:, cv2.CC_STAT_TOP]
        right, bottom = left + found[:, cv2.CC_STAT_WIDTH], top + found[:, cv2.CC_STAT_HEIGHT]
        scale = np.array([width / mask.shape[1], height / mask.shape[0]] * 2, np.float32)
        boxes = np.stack([left, top, right, bottom], 1) * scale
        # A larger group is less likely to be noise; 1 from a hundredth of the image on.
        objectness = np.minimum(1, np.sqrt(found[:, cv2.CC_STAT_AREA] / mask.size / 0.01))
        order = np.argsort(-objectness, kind="stable")[: self.config.count]
        return Proposals(boxes[order], objectness[order].astype(np.float32))


def _reduced(depth: np.ndarray) -> np.ndarray:
    """Fewer pixels, none of them a mixture of two surfaces."""
    step = max(1, depth.shape[1] // _WORKING_WIDTH)
    return depth[::step, ::step]


_POINTS = 1500  # that hypotheses are tried on
_HYPOTHESES = 150


def inverse_depth(depth: np.ndarray) -> np.ndarray:
    """1/z, and 0 where nothing was measured."""
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(depth > 0, 1 / depth, 0)
    return np.where(np.isfinite(inverse), inverse, 0).astype(np.float32)


def dominant_plane(
    inverse: np.ndarray, tolerance: float, least_share: float, seed: int = 0
) -> np.ndarray | None:
    """The inverse depth of the plane that most pixels lie on, for every pixel; None if none.

    `tolerance` is relative to the distance. RANSAC over few points, then a fit to all of those
    that agree; the same image gives the same plane.
    """
    rows, columns = np.nonzero(inverse)
    if len(rows) < 3:
        return None
    generator = np.random.default_rng(seed)
    chosen = generator.choice(len(rows), min(_POINTS, len(rows)), replace=False)
    height, width = inverse.shape
    u, v = columns[chosen] / width, rows[chosen] / height
    points = np.stack([u, v, np.ones(len(chosen))], 1)
    values = inverse[rows[chosen], columns[chosen]].astype(np.float64)
    agree = _most_agreed(points, values, tolerance, generator)
    if agree is None or agree.mean() < least_share:
        return None
    for _ in range(2):  # the first fit still carries the error of three points
        plane = np.linalg.lstsq(points[agree], values[agree], rcond=None)[0]
        agree = np.abs(points @ plane - values) <= tolerance * values
        if agree.sum() < 3:
            return None
    a, b, c = plane
    grid = a * np.arange(width) / width + (b * np.arange(height) / height)[:, None] + c
    return grid.astype(np.float32)


def _most_agreed(
    points: np.ndarray, values: np.ndarray, tolerance: float, generator: np.random.Generator
) -> np.ndarray | None:
    """Which points lie on the best of many planes through three of them."""
    triples = generator.integers(len(points), size=(_HYPOTHESES, 3))
    corners = points[triples]  # [H, 3, 3]
    fit = np.abs(np.linalg.det(corners)) > 1e-4  # not on one line
    if not fit.any():
        return None
    planes = np.linalg.solve(corners[fit], values[triples[fit]][..., None])[..., 0]
    agree = np.abs(planes @ points.T - values) <= tolerance * values
    return agree[agree.sum(1).argmax()]
