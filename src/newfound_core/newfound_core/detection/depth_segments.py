# SPDX-License-Identifier: Apache-2.0
"""Objects as segments of a depth image, on the surfaces they stand on.

In the spirit of locally convex connected patches (S. C. Stein, M. Schoeler, J. Papon,
F. Wörgötter, "Object Partitioning using Local Convexity", CVPR 2014):

1. Inverse depth at about 320 pixels width, without flying pixels and small holes, smoothed as
   much as its noise asks for; normals are its gradients (`depth_geometry`).
2. Planes by RANSAC; things stand on that with most above it, and on those parallel to it
   (`support_surfaces`). A thing is higher than the noise that the surface itself shows.
3. What is above is cut where depth has a step that the slopes on both sides do not explain, or
   where normals n at points p meet in a concave edge:
   (n_q - n_p) . (q - p) / |q - p| < -max_concavity.
4. Parts that belong together by what is known of their border are joined again
   (`segment_joining`).
"""

import math
from dataclasses import dataclass

import cv2
import numpy as np

from newfound_core.detection.depth_geometry import Surfaces, dot, measure_surfaces, opening
from newfound_core.detection.proposals import CameraView, Proposals, SegmentedDepth, Segments
from newfound_core.detection.segment_joining import (
    Parts,
    Regions,
    describe_parts,
    hull_area,
    join,
)
from newfound_core.detection.support_surfaces import Support, find_support
from newfound_core.errors import ConfigError, DataError

_GROWTH = 6.0  # pixels that parts grow back into the cuts
_LIFTED = 0.25  # m; a part that begins higher does not stand on the surface
_SMALLEST_CORE = 8  # pixels


@dataclass(frozen=True)
class DepthSegmentsConfig:
    """What is cut, and what counts as an object."""

    min_height: float = 0.003  # m above the surface; more where the noise asks for it
    max_step: float = 0.006  # in depth between neighbours of one part, relative to the distance
    max_concavity: float = 0.13  # of an edge within one part, as the sine of its angle
    min_area: float = 0.0008  # share of the image
    max_area: float = 0.4

    def __post_init__(self) -> None:
        for name in ("min_height", "max_step", "max_concavity", "min_area", "max_area"):
            value = getattr(self, name)
            if not (0 < value <= 1 and math.isfinite(value)):
                raise ConfigError(f"{name} must be in (0, 1], got {value}")
        if self.min_area > self.max_area:
            raise ConfigError(f"min_area {self.min_area} is above max_area {self.max_area}")


@dataclass(frozen=True)
class Segmentation:
    """Parts of the things on a support: a window of the reduced image."""

    parts: Parts
    support: Support
    inverse: np.ndarray  # of the whole reduced image
    top: int  # of the window
    left: int
    shape: tuple[int, ...]  # of the reduced image


class DepthSegments:
    """Proposes what stands on the support surfaces of a depth image."""

    needs_depth = True
    min_objectness = 0.4  # a probability; best F1 on the scenes that settings were chosen on

    def __init__(
        self, config: DepthSegmentsConfig | None = None, camera: CameraView | None = None
    ) -> None:
        self.config = config or DepthSegmentsConfig()
        self.camera = camera or CameraView()  # may be exchanged when more is known

    def propose(self, rgb: np.ndarray, depth: np.ndarray | None) -> Proposals:
        """Boxes of objects, the most certain first; none if there is no depth or no surface."""
        if depth is None:
            return Proposals.none()
        found = self.segment(rgb, depth)
        if found is None:
            return Proposals.none()
        return self._boxes(join(found.parts), found, rgb.shape)

    def segment(self, rgb: np.ndarray, depth: np.ndarray) -> Segmentation | None:
        """Cut what stands on a surface into parts; None if nothing does."""
        if depth.ndim != 2 or min(depth.shape) < 16:
            raise DataError(f"depth must be [height, width], got {list(depth.shape)}")
        camera = self.camera
        surfaces = measure_surfaces(depth, camera)
        support = find_support(surfaces, self.config.min_height, camera.up)
        if support is None:
            return None
        above = self._standing(support)
        if not above.any():
            return None
        concavity = max(self.config.max_concavity, 3 * _roughness(surfaces, support))
        window = _extent(above.any(1)), _extent(above.any(0))
        small = cv2.resize(
            np.ascontiguousarray(rgb), above.shape[::-1], interpolation=cv2.INTER_AREA
        )
        inverse = surfaces.inverse
        surfaces, near = surfaces.crop(*window), support.crop(*window)
        cuts = _steps(surfaces, self.config.max_step) | _concave(surfaces, concavity)
        labels = _parts(above[window], cuts)
        parts = describe_parts(labels, surfaces, near.height, small[window])
        top, left = window[0].start, window[1].start
        return Segmentation(parts, near, inverse, top, left, above.shape)

    def _standing(self, support: Support) -> np.ndarray:
        """Pixels above the support without speckles and what is not over it."""
        opened = cv2.morphologyEx(
            support.above.astype(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8)
        )
        places, numbers = _components(opened, 8)
        area = np.bincount(numbers)
        over = np.bincount(numbers[support.hull.take(places)], minlength=len(area))
        kept = (area >= self.config.min_area * opened.size) & (over > 0.2 * area)
        standing = np.zeros(opened.shape, bool)
        standing.ravel()[places[kept[numbers]]] = True
        return standing

    def _boxes(self, labels: np.ndarray, found: Segmentation, shape: tuple[int, ...]) -> Proposals:
        numbers, boxes, cues = described(labels, found)
        share = np.exp(cues[:, 0])
        objectness = 1 / (1 + np.exp(-(cues @ _CUE_WEIGHTS + _CUE_BIAS)))
        kept = (share >= self.config.min_area) & (share <= self.config.max_area)
        kept = np.flatnonzero(kept & (cues[:, 4] < _LIFTED) & (cues[:, 3] > 0.3))
        order = kept[np.argsort(-objectness[kept], kind="stable")]
        scale = [shape[1] / found.shape[1], shape[0] / found.shape[0]] * 2
        return Proposals(
            (boxes[order] * scale).astype(np.float32),
            objectness[order].astype(np.float32),
            tuple("depth" for _ in order),
            SegmentedDepth(
                found.support.planes,
                found.inverse,
                Segments(labels, found.top, found.left, boxes * scale, numbers),
            ),
        )


# Probability that a segment covers an object at IoU 0.5, from its cues; see docs/notes.
_CUE_WEIGHTS = np.array([1.627, 0.12, -0.944, 2.454, 3.965, 0.712])
_CUE_BIAS = 6.232


def described(
    labels: np.ndarray, found: Segmentation
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels of segments, boxes [N, 4] in the reduced image, cues [N, 6] of how good they are.

    The cues: log share of the image; log of the height over its noise; share of the outline at
    the border of the image; share over the support; lowest height (m); solidity.
    """
    regions = Regions(labels)
    starts, area, support = regions.starts, regions.area, found.support
    height, noise, over_support = (
        each.take(regions.pixels) for each in (support.height, support.noise, support.hull)
    )
    low, high = (
        np.stack([extreme(place, starts) for place in (regions.columns, regions.rows)], 1)
        for extreme in (np.minimum.reduceat, np.maximum.reduceat)
    )
    boxes = np.concatenate([low, high + 1], 1) + [found.left, found.top] * 2
    sides = boxes[:, 2:] - boxes[:, :2]
    outside = (boxes[:, :2] <= 1) | (boxes[:, 2:] >= np.array(found.shape[::-1]) - 1)
    over, mean_height, mean_noise = regions.means(np.stack([over_support, height, noise])).T
    tall = mean_height / np.maximum(mean_noise, 1e-9)
    hulls = np.array([hull_area(hull) for hull in regions.hulls()])
    cues = np.stack(
        [
            np.log(area / (found.shape[0] * found.shape[1])),
            np.minimum(np.log(np.maximum(tall, 1e-3)), 6),
            (outside * sides[:, ::-1]).sum(1) / (2 * sides.sum(1)),
            over,
            np.minimum.reduceat(height, starts),
            area / hulls,
        ],
        1,
    )
    return regions.numbers, boxes, cues


def _extent(occupied: np.ndarray) -> slice:
    """From the first to the last place that is occupied, and a little around it."""
    places = np.flatnonzero(occupied)
    return slice(max(int(places[0]) - 8, 0), int(places[-1]) + 9)


def _roughness(surfaces: Surfaces, support: Support) -> float:
    """Deviation of the concavity where there is none: on the support itself."""
    on = support.planes[0].inliers
    rows, columns = np.nonzero(on[::5, :-2:5] & on[::5, 2::5])
    if len(rows) < 50:
        return 0.0
    pixels = 5 * (rows * on.shape[1] + columns)
    turn, _ = opening(surfaces, pixels, pixels + 2)
    return 1.48 * float(np.median(np.abs(turn)))


# The neighbours of a pixel are 1 away, and a row: one loop over dense arrays for both directions.
# Across, the sides of the image would meet each other and are left out.


def _steps(surfaces: Surfaces, max_step: float) -> np.ndarray:
    """Pixels where depth jumps by more than the slopes before and after would have it."""
    w = surfaces.inverse.ravel()
    found = np.zeros(surfaces.inverse.shape, bool)
    for by in (1, found.shape[1]):
        change = w[2 * by :] - w[: -2 * by]
        before, here, after = change[: -4 * by], change[2 * by : -2 * by], change[4 * by :]
        jump = np.minimum(np.abs(here - before), np.abs(here - after))
        limit = np.maximum(w[2 * by : -4 * by], w[4 * by : -2 * by])
        limit *= np.float32(max_step)
        limit += np.float32(4 * surfaces.noise)
        found.ravel()[3 * by : -3 * by] |= jump > limit
        if by == 1:
            found[:, :3] = found[:, -3:] = False
    return found


def _concave(surfaces: Surfaces, max_concavity: float) -> np.ndarray:
    """Pixels between two whose normals meet in a concave edge."""
    points, normals = surfaces.points.reshape(3, -1), surfaces.normals.reshape(3, -1)
    found = np.zeros(surfaces.inverse.shape, bool)
    for by in (1, found.shape[1]):
        way = points[:, 2 * by :] - points[:, : -2 * by]
        turn = dot(normals[:, 2 * by :] - normals[:, : -2 * by], way)
        limit = np.sqrt(dot(way, way))
        limit *= np.float32(-max_concavity)
        found.ravel()[by:-by] |= turn < limit
        if by == 1:
            found[:, :1] = found[:, -1:] = False
    return found


def _parts(above: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Numbers of the parts, int32 [H, W]; 0 is no part."""
    cores = _numbered(above & ~cuts, 4, _SMALLEST_CORE)
    labels = _grown(cores, above) if cores.any() else cores
    # What is too thin to have a core, as a shaft, is a part of its own.
    thin = _numbered(above & (labels == 0), 8, 4)
    return labels + thin + labels.max() * (thin > 0)


def _components(mask: np.ndarray, connectivity: int) -> tuple[np.ndarray, np.ndarray]:
    """Where a mask is, as indices of pixels, and the connected component of each, from 1."""
    _, parts = cv2.connectedComponents(mask.view(np.uint8), connectivity=connectivity)
    places = np.flatnonzero(mask)
    return places, parts.take(places)


def _numbered(mask: np.ndarray, connectivity: int, smallest: int) -> np.ndarray:
    """Numbers of the connected components that are not too small, int32 [H, W]."""
    places, parts = _components(mask, connectivity)
    kept = np.bincount(parts, minlength=1) >= smallest
    kept[0] = False
    labels = np.zeros(mask.shape, np.int32)
    labels.ravel()[places] = np.where(kept, np.cumsum(kept), 0)[parts]
    return labels


def _grown(labels: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Labels of the nearest part within the mask, a few pixels away at most."""
    core = labels > 0
    distance, nearest = cv2.distanceTransformWithLabels(
        (~core).view(np.uint8), cv2.DIST_L2, 3, labelType=cv2.DIST_LABEL_PIXEL
    )
    cores, others = np.flatnonzero(core), np.flatnonzero(mask & ~core)
    others = others[distance.take(others) <= _GROWTH]
    numbers = np.zeros(nearest.max() + 1, np.int32)
    numbers[nearest.take(cores)] = labels.take(cores)
    grown = labels.copy()
    grown.ravel()[others] = numbers[nearest.take(others)]
    return grown
