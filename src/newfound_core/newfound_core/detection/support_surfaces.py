# SPDX-License-Identifier: Apache-2.0
"""Planes of a depth image, and which of them things stand on.

RANSAC (M. A. Fischler, R. C. Bolles, CACM 1981) over points with normals: a single point is a
hypothesis. With w = a x + b y + c of the plane and d = 1 / |(a, b, c)| its distance from the
camera, a point of inverse depth w' is d (1 - w / w') above it, and noise sigma_w becomes
d sigma_w / w' of height.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from newfound_core.detection.depth_geometry import Surfaces, dot, masked, paste

Direction = tuple[float, float, float]
_PLANES, _HYPOTHESES, _SPACING, _RANKING = 4, 48, 5, 3
_UNEVEN = 0.006  # m: tables are not planes
_LEAST = 0.02  # share of the measured points that a plane must hold
_PARALLEL = 0.94  # cosine of 20 degrees
_SUPPORT_AREA = 0.12  # m^2; smaller ones parallel to the support are tops of things
_HIGHEST = 0.5  # m above a support


@dataclass(frozen=True)
class Plane:
    """One plane and the pixels on it."""

    normal: np.ndarray  # float32 [3], towards the camera
    distance: float  # m, of the camera
    height: np.ndarray  # m above it, float32 [H, W]
    noise: np.ndarray  # standard deviation of `height` where the plane was measured
    inliers: np.ndarray  # bool [H, W]
    hull: np.ndarray  # bool [H, W]: inside the convex hull of the large parts of the inliers
    area: float  # m^2 of its largest connected part


def find_planes(surfaces: Surfaces) -> list[Plane]:
    """Up to four planes, that with most pixels first."""
    grid = np.s_[_SPACING // 2 :: _SPACING, _SPACING // 2 :: _SPACING]
    w = surfaces.inverse[grid]
    x, y = np.broadcast_arrays(surfaces.x[grid[1]], surfaces.y[grid[0], None])
    rays = np.stack([x, y, np.ones_like(w)])
    normals = surfaces.normals[:, *grid]
    points = _GridPoints(w.ravel(), rays.reshape(3, -1), normals.reshape(3, -1))
    points = points.where(points.w > 0)
    total, found = len(points.w), []
    generator = np.random.default_rng(0)
    for _ in range(_PLANES):
        fitted = _ransac(points, surfaces.noise, generator)
        if fitted is None or fitted[1].sum() < _LEAST * total:
            break
        plane = _plane(surfaces, fitted[0])
        found.append(plane)
        points = points.where(
            np.abs(1 - dot(fitted[0], points.rays) / points.w) * plane.distance
            > 2 * _UNEVEN + 6 * plane.distance * surfaces.noise / points.w
        )
    return found


@dataclass(frozen=True)
class _GridPoints:
    """Points of a coarse grid that planes are looked for in."""

    w: np.ndarray  # [N]
    rays: np.ndarray  # [3, N]
    normals: np.ndarray  # [3, N]

    def where(self, mask: np.ndarray) -> "_GridPoints":
        """Some of them."""
        return _GridPoints(
            self.w[mask], self.rays.compress(mask, 1), self.normals.compress(mask, 1)
        )


def _ransac(
    points: _GridPoints, noise: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray] | None:
    """Coefficients (a, b, c) of the plane through most points, and which they are."""
    w, rays, normals = points.w, points.rays, points.normals
    if len(w) < 60:
        return None
    tried = generator.integers(len(w), size=_HYPOTHESES)
    chosen = normals[:, tried]
    # The plane through a point with normal n: (a, b, c) = n w / (n . ray)
    facing = dot(chosen, rays[:, tried])
    fit = facing < -0.05
    if not fit.any():
        return None
    chosen, planes = chosen[:, fit], (chosen * w[tried] / np.minimum(facing, -1e-6))[:, fit]
    some = points.where(np.arange(len(w)) % _RANKING == 0)
    near = _near(planes[..., None], some.w, some.rays, noise)
    agree = near & (dot(chosen[..., None], some.normals) > 0.9)
    best = int(np.count_nonzero(agree, axis=1).argmax())
    plane = planes[:, best]
    inliers = _near(plane, w, rays, noise) & (dot(chosen[:, best], normals) > 0.9)
    terms = np.concatenate([rays, w[None]]).astype(np.float64)  # a x + b y + c = w
    for _ in range(3):  # one point's normal is a beginning; all of those that agree are better
        if np.count_nonzero(inliers) < 20:
            return None
        products = np.einsum("in,jn->ij", inliers * terms, terms)  # normal equations; see `dot`
        try:
            plane = np.linalg.solve(products[:3, :3], products[:3, 3]).astype(np.float32)
        except np.linalg.LinAlgError:  # all of them on one line, as where little was measured
            return None
        facing_plane = dot(-plane / np.linalg.norm(plane), normals) > 0.85
        inliers = _near(plane, w, rays, noise) & facing_plane
    return plane, inliers


def _near(plane: np.ndarray, w: np.ndarray, rays: np.ndarray, noise: float) -> np.ndarray:
    """Which points are on a plane, but for unevenness and noise; all in inverse depth."""
    uneven = np.float32(_UNEVEN) * np.sqrt(dot(plane, plane))
    away = dot(plane, rays)
    away -= w
    return np.abs(away, out=away) < np.float32(3 * noise) + uneven * w


def _plane(surfaces: Surfaces, plane: np.ndarray) -> Plane:
    length = float(np.linalg.norm(plane))
    distance, normal = 1 / length, -plane / length
    z, measured = surfaces.depth, surfaces.measured
    height = plane[0] * surfaces.x + (plane[1] * surfaces.y + plane[2])[:, None]
    height *= np.float32(distance)
    height *= z
    height = masked(np.float32(distance) - height, measured)
    away = np.abs(height)
    near = measured & (dot(normal, surfaces.normals) > 0.8)
    noise = np.float32(distance * surfaces.noise) * z
    noise *= _noise_factor(away, noise, near & (away < _UNEVEN + 3 * noise))
    inliers = near & (away < _UNEVEN + 3 * noise)
    step = surfaces.pixel * float(surfaces.y[1] - surfaces.y[0])
    largest, hull = _extent(inliers)
    # A pixel covers step z^2 across its ray, and z / distance times that on the plane.
    seen = masked(z, largest)
    area = step / distance * float((seen * seen * seen).sum())
    return Plane(normal, distance, height, noise, inliers, hull, area)


def _noise_factor(away: np.ndarray, noise: np.ndarray, near: np.ndarray) -> float:
    """How many times the noise of the camera the surface itself shows, at least 1."""
    places = np.flatnonzero(near)
    if len(places) < 50:
        return 1.0
    places = places[::4]
    ratio = away.take(places) / np.maximum(noise.take(places), 1e-6)
    return max(1.0, 1.48 * float(np.median(ratio)))


def _extent(inliers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest connected part of a plane, and the convex hull of all large ones."""
    hull = np.zeros(inliers.shape, np.uint8)
    _, parts = cv2.connectedComponents(inliers.view(np.uint8))
    areas = np.bincount(parts[::2, ::2].ravel())  # a quarter tells which are large
    areas[0] = 0  # what is not on the plane
    if not areas.any():
        return inliers, inliers
    largest = parts == areas.argmax()
    mask = largest.copy()
    for other in np.flatnonzero(areas > 0.1 * areas.max()):
        mask |= parts == other
    rows = np.flatnonzero(mask.any(1))
    first = mask[rows].argmax(1)
    last = mask.shape[1] - 1 - mask[rows, ::-1].argmax(1)
    corners = np.stack([np.concatenate([first, last]), np.concatenate([rows, rows])], 1)
    cv2.fillConvexPoly(hull, cv2.convexHull(corners.astype(np.int32)), (1,))
    return largest, hull.view(bool)


@dataclass(frozen=True)
class Support:
    """The surfaces that things stand on, and how high above them everything is."""

    planes: list[Plane]  # the best first
    height: np.ndarray  # m above the nearest of them below
    noise: np.ndarray
    above: np.ndarray  # bool: may belong to a thing
    hull: np.ndarray

    def crop(self, rows: slice, columns: slice) -> "Support":
        """A part of the image; the planes stay as they are."""
        maps = (self.height, self.noise, self.above, self.hull)
        return Support(self.planes, *(values[rows, columns] for values in maps))


def find_support(surfaces: Surfaces, min_height: float, up: Direction | None) -> Support | None:
    """The plane with most on it, and those parallel to it; None if there is no plane."""
    planes = find_planes(surfaces)
    over = [_above(plane, min_height) for plane in planes]
    scores = [_score(index, planes, over[index], up) for index in range(len(planes))]
    if not scores or max(scores) <= 0:
        return None
    best = planes[int(np.argmax(scores))]
    supports = [best] + [
        plane
        for plane in planes
        if plane is not best
        and plane.normal @ best.normal > _PARALLEL
        and plane.area > _SUPPORT_AREA
    ]
    above_of = {id(plane): on for plane, on in zip(planes, over, strict=True)}
    # From the lowest to the highest: what is above a higher one stands on that.
    height, noise = best.height.copy(), best.noise.copy()
    above = np.zeros_like(best.inliers)
    hull = np.zeros_like(above)
    for plane in sorted(supports, key=lambda p: -p.distance):
        on = above_of[id(plane)]
        if plane is not best:
            on = on & plane.hull
        paste(plane.height, on, height)
        paste(plane.noise, on, noise)
        above |= on
        hull |= plane.hull
    for plane in planes:
        if any(plane is each for each in supports):  # its edges, too, where normals are lost
            level = np.abs(plane.height) <= np.maximum(_UNEVEN, 4 * plane.noise)
            above &= ~(level & plane.hull) | above_of[id(plane)]
        elif _is_wall(plane, best):
            above &= ~plane.inliers
    return Support(supports, height, noise, above & surfaces.measured, hull)


def _above(plane: Plane, min_height: float) -> np.ndarray:
    return (plane.height > np.maximum(min_height, 4 * plane.noise)) & (plane.height < _HIGHEST)


def _is_wall(plane: Plane, support: Plane) -> bool:
    share = np.count_nonzero(plane.inliers) / plane.inliers.size
    return share > 0.1 and abs(plane.normal @ support.normal) < 0.5


def _score(index: int, planes: list[Plane], above: np.ndarray, up: Direction | None) -> float:
    """How much of what is `above` stands on a plane, and how near that is; other planes do not."""
    plane = planes[index]
    if up is not None and plane.normal @ np.array(up) < _PARALLEL:
        return 0.0
    on = above & plane.hull
    for other in planes:
        if other is not plane and other.area > _SUPPORT_AREA:
            on &= ~other.inliers
    count = np.count_nonzero  # an order of magnitude faster than the sum of a mask
    score = float(count(on) + 0.05 * count(plane.inliers)) / plane.distance
    # The camera is hardly ever upside down: a ceiling, and walls at its sides.
    return score * (0.1 if plane.normal[1] > 0.2 else 0.3 if abs(plane.normal[0]) > 0.8 else 1)
