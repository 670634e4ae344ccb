# SPDX-License-Identifier: Apache-2.0
"""Objects on a support surface, separated where they touch: segments of a depth image.

In the spirit of locally convex connected patches (S. C. Stein, M. Schoeler, J. Papon,
F. Wörgötter, "Object Partitioning using Local Convexity", CVPR 2014):

1. Flying pixels are removed, small holes filled; points and normals at 320 pixels width.
2. Planes by RANSAC over points with normals. The support surface is the plane with most above it.
3. What lies above the surface is cut where neighbours differ in depth by more than a share of the
   distance, or where their normals meet in a concave edge:
   (n_p - n_q) · (p - q) / |p - q| < -max_concavity.
4. Connected parts grow back into the cuts. Slivers join their neighbour; a hollow part joins the
   rim before it (a bowl); two parts of one surface join behind what hides the middle.

The focal length is taken as that of a usual depth camera, 0.82 of the width: planes stay planes
with another one, and angles change little.
"""

import math
from dataclasses import dataclass

import cv2
import numpy as np

from newfound_core.detection.proposals import Proposals
from newfound_core.errors import ConfigError, DataError

_WIDTH = 320  # pixels that depth is reduced to
_FOCAL = 0.82  # of the width
_NOISE = 0.0025  # m at 1 m; that of triangulation grows with the square of the distance
_PLANES, _HYPOTHESES = 3, 60
_GROWTH = 6.0  # pixels that parts grow back into the cuts
_HIGHEST = 0.5  # m above the surface
_LIFTED = 0.25  # m; a part that begins higher does not stand on the surface


@dataclass(frozen=True)
class SurfaceSegmentsConfig:
    """What is cut, and what counts as an object."""

    min_height: float = 0.01  # m above the surface, besides the noise
    max_step: float = 0.02  # in depth between neighbours of one part, relative to the distance
    max_concavity: float = 0.22  # of an edge within one part, as the sine of its angle
    min_area: float = 0.0008  # share of the image
    max_area: float = 0.35

    def __post_init__(self) -> None:
        for name in ("min_height", "max_step", "max_concavity", "min_area", "max_area"):
            value = getattr(self, name)
            if not (0 < value <= 1 and math.isfinite(value)):
                raise ConfigError(f"{name} must be in (0, 1], got {value}")
        if self.min_area > self.max_area:
            raise ConfigError(f"min_area {self.min_area} is above max_area {self.max_area}")


@dataclass(frozen=True)
class _Scene:
    """A depth image as points [H, W, 3] with normals towards the camera."""

    depth: np.ndarray  # m, float32 [H, W]; 0 where nothing was measured
    points: np.ndarray
    normals: np.ndarray

    @property
    def measured(self) -> np.ndarray:
        return self.depth > 0


@dataclass(frozen=True)
class _Surface:
    """A plane that things may stand on."""

    height: np.ndarray  # m above it, for every pixel
    normal: np.ndarray
    inliers: np.ndarray  # bool [H, W]
    hull: np.ndarray  # bool [H, W]: inside the convex hull of the inliers


class SurfaceSegments:
    """Proposes the parts of a depth image that stand on the support surface."""

    needs_depth = True
    min_objectness = 0.3

    def __init__(self, config: SurfaceSegmentsConfig | None = None) -> None:
        self.config = config or SurfaceSegmentsConfig()

    def propose(self, rgb: np.ndarray, depth: np.ndarray | None) -> Proposals:
        """Boxes of objects, the largest first; none if there is no depth or no surface."""
        if depth is None:
            return Proposals.none()
        if depth.ndim != 2 or not depth.size:
            raise DataError(f"depth must be [height, width], got {list(depth.shape)}")
        scene = _scene(depth)
        surfaces = self._surfaces(scene)
        if not surfaces:
            return Proposals.none()
        labels = self._segments(scene, surfaces)
        size = scene.depth.shape[::-1]
        colours = cv2.cvtColor(
            cv2.resize(np.ascontiguousarray(rgb), size, interpolation=cv2.INTER_AREA),
            cv2.COLOR_RGB2LAB,
        )
        labels = _join(labels, scene, colours.astype(np.float32))
        return self._boxes(labels, surfaces[0], rgb.shape[1] / size[0], rgb.shape[0] / size[1])

    def _surfaces(self, scene: _Scene) -> list[_Surface]:
        """Planes of the scene, that with most above it first."""
        grid = np.zeros_like(scene.measured)
        grid[::5, ::5] = True
        points = scene.points[grid & scene.measured]
        normals = scene.normals[grid & scene.measured]
        total, found = len(points), []
        generator = np.random.default_rng(0)
        for _ in range(_PLANES):
            plane = _plane(points, normals, generator)
            if plane is None:
                break
            normal, offset, agree = plane
            if agree.sum() < 0.04 * total:
                break
            surface = self._surface(scene, normal, offset)
            above = self._above(scene, surface) & surface.hull
            found.append((above.sum() + 0.15 * surface.inliers.sum(), surface))
            away = np.abs(points @ normal + offset) > 0.012 * (0.5 + points[:, 2] ** 2)
            points, normals = points[away], normals[away]
        return [surface for _, surface in sorted(found, key=lambda pair: -pair[0])]

    def _surface(self, scene: _Scene, normal: np.ndarray, offset: float) -> _Surface:
        height = scene.points @ normal + offset
        near = np.abs(height) < 0.8 * self.config.min_height + _NOISE * scene.depth**2
        inliers = near & scene.measured & (scene.normals @ normal > 0.8)
        hull = np.zeros(inliers.shape, np.uint8)
        count, parts, statistics, _ = cv2.connectedComponentsWithStats(inliers.astype(np.uint8))
        if count > 1:
            areas = statistics[:, cv2.CC_STAT_AREA].copy()
            areas[0] = 0  # what is not on the plane
            large = areas > 0.1 * areas.max()
            corners = np.argwhere(large[parts])[::7, ::-1].astype(np.int32)
            cv2.fillConvexPoly(hull, cv2.convexHull(corners), (1,))
        return _Surface(height, normal, inliers, hull > 0)

    def _above(self, scene: _Scene, surface: _Surface) -> np.ndarray:
        lowest = self.config.min_height + _NOISE * scene.depth**2
        return (surface.height > lowest) & (surface.height < _HIGHEST) & scene.measured

    def _segments(self, scene: _Scene, surfaces: list[_Surface]) -> np.ndarray:
        """Numbers of the parts above the support surface, int32 [H, W]; 0 is no part."""
        support, *others = surfaces
        above = self._above(scene, support)
        for other in others:  # walls
            if other.inliers.mean() > 0.1 and abs(other.normal @ support.normal) < 0.5:
                above &= ~other.inliers
        opened = cv2.morphologyEx(
            above.astype(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8)
        )
        above = opened > 0
        core = (above & ~self._cuts(scene)).astype(np.uint8)
        count, parts, statistics, _ = cv2.connectedComponentsWithStats(core, connectivity=4)
        smallest = max(12.0, 0.25 * self.config.min_area * above.size)
        kept = statistics[:, cv2.CC_STAT_AREA] >= smallest
        kept[0] = False
        numbers = np.where(kept, np.cumsum(kept), 0).astype(np.int32)
        return _grown(numbers[parts], above) if count > 1 and kept.any() else np.zeros_like(parts)

    def _cuts(self, scene: _Scene) -> np.ndarray:
        """Pixels between neighbours that belong to different parts."""
        depth, points, normals = scene.depth, scene.points, scene.normals
        height, width = depth.shape
        cuts = np.zeros(depth.shape, bool)
        for down, right in ((0, 2), (2, 0)):
            one, other = np.s_[: height - down, : width - right], np.s_[down:, right:]
            nearer = np.minimum(depth[one], depth[other])
            step = np.abs(depth[one] - depth[other]) > self.config.max_step * nearer
            way = points[other] - points[one]
            turn = ((normals[other] - normals[one]) * way).sum(-1)
            concave = turn < -self.config.max_concavity * np.sqrt((way * way).sum(-1))
            top, left = down // 2, right // 2
            cuts[top : height - down + top, left : width - right + left] |= step | concave
        return cuts

    def _boxes(
        self, labels: np.ndarray, support: _Surface, across: float, down: float
    ) -> Proposals:
        boxes, areas = [], []
        for number in np.unique(labels[labels > 0]):
            part = labels == number
            area = part.mean()
            if not self.config.min_area <= area <= self.config.max_area:
                continue
            if support.height[part].min() > _LIFTED or support.hull[part].mean() < 0.3:
                continue
            rows, columns = np.flatnonzero(part.any(1)), np.flatnonzero(part.any(0))
            boxes.append([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])
            areas.append(area)
        if not boxes:
            return Proposals.none()
        scaled = np.array(boxes, np.float32) * np.array([across, down] * 2, np.float32)
        # A larger part is less likely to be noise; 1 from a hundredth of the image on.
        objectness = np.minimum(1, np.sqrt(np.array(areas) / 0.01)).astype(np.float32)
        order = np.argsort(-np.array(areas), kind="stable")
        return Proposals(scaled[order], objectness[order])


def _scene(depth: np.ndarray) -> _Scene:
    stride = max(1, depth.shape[1] // _WIDTH)
    reduced = depth[::stride, ::stride].astype(np.float32)
    reduced[~np.isfinite(reduced) | (reduced < 0)] = 0
    filled = _filled(_without_flying_pixels(reduced))
    measured = (filled > 0).astype(np.float32)
    weight = np.maximum(cv2.GaussianBlur(measured, (5, 5), 0), 1e-6)
    smooth = cv2.GaussianBlur(filled, (5, 5), 0) / weight
    smooth = np.where(np.abs(smooth - filled) > 0.01 * filled, filled, smooth)  # not over steps
    height, width = filled.shape
    focal = _FOCAL * width
    x = smooth * ((np.arange(width, dtype=np.float32) - (width - 1) / 2) / focal)
    y = smooth * ((np.arange(height, dtype=np.float32) - (height - 1) / 2) / focal)[:, None]
    points = np.stack([x, y, smooth], -1)
    return _Scene(filled, points, _normals(points))


def _without_flying_pixels(depth: np.ndarray) -> np.ndarray:
    """Depth without pixels that hang between a near and a far neighbour."""
    flying = np.zeros(depth.shape, bool)
    for before, here, after in (
        (np.s_[:, :-2], np.s_[:, 1:-1], np.s_[:, 2:]),
        (np.s_[:-2], np.s_[1:-1], np.s_[2:]),
    ):
        step = 0.03 * depth[here]
        rising, falling = depth[here] - depth[before], depth[after] - depth[here]
        flying[here] |= (rising > step) & (falling > step)
        flying[here] |= (rising < -step) & (falling < -step)
    return np.where(flying, np.float32(0), depth)


def _filled(depth: np.ndarray) -> np.ndarray:
    """Depth with small holes filled from around them."""
    for _ in range(3):
        share = cv2.blur((depth > 0).astype(np.float32), (5, 5), borderType=cv2.BORDER_CONSTANT)
        mean = cv2.blur(depth, (5, 5), borderType=cv2.BORDER_CONSTANT) / np.maximum(share, 1e-6)
        depth = np.where((depth <= 0) & (share > 0.2), mean, depth)
    return depth


def _normals(points: np.ndarray) -> np.ndarray:
    """Unit normals towards the camera, from differences over five pixels."""
    across, down = np.zeros_like(points), np.zeros_like(points)
    across[:, 2:-2] = points[:, 4:] - points[:, :-4]
    down[2:-2] = points[4:] - points[:-4]
    normals = cv2.blur(_unit(np.cross(down, across)), (3, 3))
    normals = _unit(normals)
    normals[(normals * points).sum(-1) > 0] *= -1
    return normals


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.sqrt((vectors * vectors).sum(-1, keepdims=True)), 1e-12)


def _plane(
    points: np.ndarray, normals: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """Normal, offset and inliers of the plane through most points [N, 3], if there is one."""
    if len(points) < 100:
        return None
    tried = generator.integers(len(points), size=_HYPOTHESES)
    tolerance = 0.008 * (0.5 + points[:, 2] ** 2)
    offsets = -(points[tried] * normals[tried]).sum(1)
    near = np.abs(points @ normals[tried].T + offsets) < tolerance[:, None]
    agree = near & (normals @ normals[tried].T > 0.9)
    best = int(agree.sum(0).argmax())
    normal, inliers = normals[tried[best]], agree[:, best]
    offset = float(offsets[best])
    for _ in range(2):  # one point's normal is a beginning; all of those that agree are better
        if inliers.sum() < 20:
            return None
        centre = points[inliers].mean(0)
        fitted = np.linalg.eigh(np.cov((points[inliers] - centre).T))[1][:, 0]
        normal = (fitted if fitted @ normal > 0 else -fitted).astype(np.float32)
        offset = -float(centre @ normal)
        inliers = (np.abs(points @ normal + offset) < tolerance) & (normals @ normal > 0.85)
    return normal, offset, inliers


def _grown(labels: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Labels of the nearest part within the mask, a few pixels away at most."""
    distance, nearest = cv2.distanceTransformWithLabels(
        (labels == 0).astype(np.uint8), cv2.DIST_L2, 3, labelType=cv2.DIST_LABEL_PIXEL
    )
    numbers = np.zeros(nearest.max() + 1, np.int32)
    numbers[nearest[labels > 0]] = labels[labels > 0]
    return np.where((distance <= _GROWTH) & mask, numbers[nearest], 0)


class _Parts:
    """What is known of each part: index 0 is no part."""

    def __init__(self, labels: np.ndarray, scene: _Scene, colours: np.ndarray) -> None:
        self.labels, self.count = labels, int(labels.max()) + 1
        flat = labels.ravel()
        self.area = np.bincount(flat, minlength=self.count).astype(np.float64)
        self.centre = self._mean(scene.points)
        self.normal = _unit(self._mean(scene.normals))
        self.colour = self._mean(colours) * [0.5, 1, 1]  # light differs more than colour
        self.bend = self._bends(scene)
        self.outline, self.shared = self._borders()
        self.box = {}
        for number in range(1, self.count):
            rows, columns = np.nonzero(labels == number)
            if len(rows):
                self.box[number] = (columns.min(), rows.min(), columns.max(), rows.max())

    def _mean(self, values: np.ndarray) -> np.ndarray:
        flat, area = self.labels.ravel(), np.maximum(self.area, 1)
        sums = [np.bincount(flat, v.ravel(), self.count) for v in np.moveaxis(values, -1, 0)]
        return np.stack(sums, 1) / area[:, None]

    def _bends(self, scene: _Scene) -> np.ndarray:
        """How convex each part is from left to right, on average; negative: hollow."""
        one, other = np.s_[:, :-8], np.s_[:, 8:]
        inside = (self.labels[one] == self.labels[other]) & (self.labels[one] > 0)
        way = scene.points[other] - scene.points[one]
        turn = ((scene.normals[other] - scene.normals[one]) * _unit(way)).sum(-1)
        numbers = self.labels[one][inside]
        pairs = np.maximum(np.bincount(numbers, minlength=self.count), 1)
        return np.bincount(numbers, turn[inside], self.count) / pairs

    def _borders(self) -> tuple[np.ndarray, dict[tuple[int, int], int]]:
        """Length of each part's outline, and of the border of every two that touch."""
        outline = np.zeros(self.count)
        shared: dict[tuple[int, int], int] = {}
        for one, other in ((np.s_[:, :-1], np.s_[:, 1:]), (np.s_[:-1], np.s_[1:])):
            a, b = self.labels[one], self.labels[other]
            differ = a != b
            outline += np.bincount(a[differ], minlength=self.count)
            outline += np.bincount(b[differ], minlength=self.count)
            touch = differ & (a > 0) & (b > 0)
            low, high = np.minimum(a[touch], b[touch]), np.maximum(a[touch], b[touch])
            codes, counts = np.unique(low * self.count + high, return_counts=True)
            for code, length in zip(codes.tolist(), counts.tolist(), strict=True):
                pair = divmod(code, self.count)
                shared[pair] = shared.get(pair, 0) + length
        return outline, shared

    def is_sliver(self, small: int, large: int, border: int) -> bool:
        """Whether a small part is the edge of a large one."""
        return self.area[small] < 0.12 * self.area[large] and border > 0.3 * self.outline[small]

    def is_hollow(self, one: int, other: int, border: int) -> bool:
        """Whether the farther part is the inside of a container, and the nearer its front."""
        far = one if self.centre[one][2] > self.centre[other][2] else other
        sizes = self.area[[one, other]]
        widths = [self.box[n][2] - self.box[n][0] + 1 for n in (one, other)]
        if self.bend[far] > -0.06 or sizes.min() < 0.2 * sizes.max():
            return False
        if border < 0.45 * min(widths):
            return False
        both = np.isin(self.labels, (one, other))
        hull = cv2.convexHull(np.argwhere(both)[:, ::-1].astype(np.int32))
        return bool(both.sum() > 0.9 * cv2.contourArea(hull))

    def continue_each_other(self, one: int, other: int) -> bool:
        """Whether two parts look like one surface of which the middle is hidden."""
        way = self.centre[one] - self.centre[other]
        apart = max(abs(self.normal[one] @ way), abs(self.normal[other] @ way))
        if self.normal[one] @ self.normal[other] < 0.8 or apart > 0.06:
            return False
        if np.linalg.norm(self.colour[one] - self.colour[other]) > 25:
            return False
        (_, top, _, bottom), (_, other_top, _, other_bottom) = self.box[one], self.box[other]
        common = min(bottom, other_bottom) - max(top, other_top)
        return bool(common >= 0.6 * max(bottom - top, other_bottom - other_top))


def _join(labels: np.ndarray, scene: _Scene, colours: np.ndarray) -> np.ndarray:
    """Labels in which parts of one object have one number."""
    if not labels.any():
        return labels
    parts = _Parts(labels, scene, colours)
    parent = list(range(parts.count))

    def root(number: int) -> int:
        while parent[number] != number:
            number = parent[number]
        return number

    for (one, other), border in sorted(parts.shared.items(), key=lambda item: -item[1]):
        small, large = sorted((one, other), key=lambda n: parts.area[n])
        if parts.is_sliver(small, large, border) or (
            root(one) != root(other) and parts.is_hollow(one, other, border)
        ):
            parent[root(small)] = root(large)
    for front in range(1, parts.count):
        touching = [a + b - front for a, b in parts.shared if front in (a, b)]
        behind = [n for n in touching if parts.centre[n][2] > parts.centre[front][2] + 0.02]
        for index, one in enumerate(behind):
            for other in behind[:index]:
                if root(one) != root(other) and parts.continue_each_other(one, other):
                    parent[root(one)] = root(other)
    return np.array([root(n) for n in range(parts.count)], np.int32)[labels]
