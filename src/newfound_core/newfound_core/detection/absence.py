# SPDX-License-Identifier: Apache-2.0
"""Places that a depth camera looks at: is what was there still there?

The surface of a thing is nearer than its centre. So depth beyond the centre sees through the
place, depth well before the thing is that of something that hides it, and depth in between may
be the thing itself.
"""

import enum

import numpy as np

from newfound_core.detection.camera_rays import Calibration

_GRID = np.stack(np.meshgrid(*[np.linspace(-1, 1, 5)] * 2), -1).reshape(-1, 2)
_INNER = 0.35  # of the size: samples stay on a thing that is not quite where it is thought
_MARGIN = 0.01  # m
_MEASURED, _HIDDEN, _THROUGH = 0.6, 0.3, 0.8  # shares of the samples


class Look(enum.Enum):
    """What a camera sees at a place."""

    OUTSIDE = "not in view"
    HIDDEN = "something is before it, or nothing was measured"
    OCCUPIED = "something is there"
    SEEN_THROUGH = "nothing is there"


def look_at(
    points: np.ndarray,
    sizes: np.ndarray,
    errors: np.ndarray,
    depth: np.ndarray,
    calibration: Calibration,
) -> list[Look]:
    """Judge places [N, 3] in the camera's frame, of things of sizes [N, 3] (all in metres)."""
    height, width = depth.shape
    found = []
    for point, size, error in zip(points, sizes, errors, strict=True):
        if point[2] < 0.1:
            found.append(Look.OUTSIDE)
            continue
        around = _INNER * float(size.min()) * _GRID
        samples = np.column_stack([point[:2] + around, np.full(len(around), point[2])])
        columns, rows = np.floor(calibration.project(samples, height, width)).T
        if not ((columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)).all():
            found.append(Look.OUTSIDE)
            continue
        reach = float(np.linalg.norm(size)) / 2 + 3 * float(error)
        found.append(_judge(depth[rows.astype(int), columns.astype(int)], point[2], error, reach))
    return found


def _judge(measured: np.ndarray, z: float, error: float, reach: float) -> Look:
    valid = measured[np.isfinite(measured) & (measured > 0)]
    if len(valid) < _MEASURED * len(measured) or (valid < z - reach).mean() > _HIDDEN:
        return Look.HIDDEN
    beyond = (valid > z + _MARGIN + 2 * error).mean()
    return Look.SEEN_THROUGH if beyond >= _THROUGH else Look.OCCUPIED
