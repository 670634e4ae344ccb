# SPDX-License-Identifier: Apache-2.0
"""The dominant plane of a depth image.

A plane seen by a pinhole camera is linear in inverse depth: 1/z = a u + b v + c. So it is found
in pixels and inverse metres, and no calibration of the camera is needed.
"""

import numpy as np

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
