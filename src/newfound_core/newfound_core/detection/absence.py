# SPDX-License-Identifier: Apache-2.0
"""Places that a depth camera looks at: is what was there still there?

The surface of a thing is nearer than its centre. So depth beyond the centre sees through the
place, depth well before the thing is that of something that hides it, and depth in between may
be the thing itself.

What lies flat has its support just behind its centre, nearer than the error of its position. But
the support around it is in the same image: where the heights of the footprint are those of its
surroundings, nothing lies there. Only differences of heights are used, so an error of the pose or
of the calibration, which moves both alike, does not matter.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from newfound_core.detection.camera_rays import Calibration
from newfound_core.detection.depth_geometry import pixel_noise

_GRID = np.stack(np.meshgrid(*[np.linspace(-1, 1, 5)] * 2), -1).reshape(-1, 2)
_INNER = 0.35  # of the size: samples stay on a thing that is not quite where it is thought
_MARGIN = 0.01  # m; no thing is taken for smaller
_MEASURED, _HIDDEN, _THROUGH = 0.6, 0.3, 0.8  # shares of the samples

_FOOTPRINT = np.stack(np.meshgrid(*[np.linspace(-0.5, 0.5, 11)] * 2), -1).reshape(-1, 2)
_AROUND = np.stack([np.cos(a := np.linspace(0, 2 * np.pi, 32, False)), np.sin(a)], 1)
_RING = 0.02  # m from the footprint, which its samples are away at least
_LOW = 1 / 3  # of a thing's height: what is lower is its support
_SIGMAS = 3.0  # of a pixel's noise that this height must be
_SURE, _LEVEL = 0.95, 0.03  # share of the samples; m from the remembered support to that seen


class Look(enum.Enum):
    """What a camera sees at a place."""

    OUTSIDE = "not in view"
    HIDDEN = "something is before it, or nothing was measured"
    OCCUPIED = "something is there"
    SEEN_THROUGH = "nothing is there"


@dataclass(frozen=True)
class Place:
    """The box that a thing is thought to be in, in the camera's frame."""

    centre: np.ndarray  # m, [3]
    axes: np.ndarray  # [3, 3]: columns are the directions of the sides, the last up from a support
    size: np.ndarray  # m, [3]
    error: float  # m, of the centre


def look_at(places: Iterable[Place], depth: np.ndarray, calibration: Calibration) -> list[Look]:
    """Judge places by depth in metres [H, W]."""
    noise = pixel_noise(depth[::2])
    found = []
    for place in places:
        look = _through(place, depth, calibration)
        if look is Look.OCCUPIED and _is_bare(place, noise, depth, calibration):
            look = Look.SEEN_THROUGH
        found.append(look)
    return found


def _through(place: Place, depth: np.ndarray, calibration: Calibration) -> Look:
    """What is measured along the rays through the middle of a place."""
    (height, width), z = depth.shape, float(place.centre[2])
    if z < 0.1:
        return Look.OUTSIDE
    size = np.maximum(place.size, _MARGIN)
    around = place.centre[:2] + _INNER * float(size.min()) * _GRID
    samples = np.column_stack([around, np.full(len(around), z)])
    columns, rows = np.floor(calibration.project(samples, height, width)).T
    if not ((columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)).all():
        return Look.OUTSIDE
    reach = float(np.linalg.norm(size)) / 2 + 3 * place.error
    return _judge(depth[rows.astype(int), columns.astype(int)], z, place.error, reach)


def _judge(measured: np.ndarray, z: float, error: float, reach: float) -> Look:
    valid = measured[np.isfinite(measured) & (measured > 0)]
    if len(valid) < _MEASURED * len(measured) or (valid < z - reach).mean() > _HIDDEN:
        return Look.HIDDEN
    beyond = (valid > z + _MARGIN + 2 * error).mean()
    return Look.SEEN_THROUGH if beyond >= _THROUGH else Look.OCCUPIED


def _is_bare(place: Place, noise: float, depth: np.ndarray, calibration: Calibration) -> bool:
    """Whether the support of a thing is seen all over its footprint, as it is around it."""
    *sides, height = place.size
    low = _LOW * height
    if low < _SIGMAS * noise * place.centre[2] ** 2:
        return False
    reach = np.array(sides) + 2 * place.error  # it may lie a little aside
    footprint = _heights(place, _FOOTPRINT * reach, 0.0, depth, calibration)
    # An ellipse around the rectangle.
    around = _heights(place, _AROUND * (reach / 2**0.5 + _RING), -height / 2, depth, calibration)
    if len(footprint) < _MEASURED * len(_FOOTPRINT) or len(around) < _MEASURED * len(_AROUND):
        return False
    support = float(np.median(around))
    return bool(abs(support) < _LEVEL and (np.abs(footprint - support) < low).mean() >= _SURE)


def _heights(
    place: Place, level: np.ndarray, up: float, depth: np.ndarray, calibration: Calibration
) -> np.ndarray:
    """Heights above the base of a place of what is measured at points [N, 2] along its sides."""
    local = np.column_stack([level, np.full(len(level), up)])
    points = _measured(place.centre + local @ place.axes.T, depth, calibration)
    heights = (points - place.centre) @ place.axes[:, 2] + place.size[2] / 2
    return heights[np.isfinite(heights)]


def _measured(samples: np.ndarray, depth: np.ndarray, calibration: Calibration) -> np.ndarray:
    """What the pixels that show points [N, 3] have measured, [N, 3]; NaN where nothing is."""
    height, width = depth.shape
    samples = np.where(samples[:, 2:] > 0.1, samples, np.nan)
    pixels = np.floor(places := calibration.project(samples, height, width))
    inside = ((pixels >= 0) & (pixels < (width, height))).all(1)
    columns, rows = np.where(inside[:, None], pixels, 0).astype(int).T
    z = np.where(inside & (depth[rows, columns] > 0), depth[rows, columns], np.nan)
    # The ray of the middle of the pixel, not that of the point.
    shift = (pixels + 0.5 - places) / (calibration.focal_x * width, calibration.focal_y * height)
    rays = samples[:, :2] / samples[:, 2:] + shift
    return np.column_stack([rays * z[:, None], z])
