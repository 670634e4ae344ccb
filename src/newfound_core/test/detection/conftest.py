# SPDX-License-Identifier: Apache-2.0
"""A camera over a table, and detections made by hand."""

import numpy as np
import pytest

from newfound_core.detection.detector import Detection


@pytest.fixture
def make_detection():
    """A detection whose embedding is a unit vector along an axis, a little off by `noise`."""

    def make(axis=0, box=(10, 10, 40, 40), *, label="", noise=0.0, seed=0, sharp=True):
        generator = np.random.default_rng([seed, axis])
        embedding = np.eye(8, dtype=np.float32)[axis]
        embedding = embedding + noise * generator.normal(size=8).astype(np.float32)
        crop = generator.integers(0, 255, (64, 64, 3)).astype(np.uint8)
        if not sharp:
            crop[:] = 128
        return Detection(
            box=np.array(box, np.float32),
            objectness=0.9,
            label=label,
            nearest_label=label or "mug",
            score=0.5,
            distance=2.0,
            rejection_threshold=1.0,
            embedding=embedding / np.linalg.norm(embedding),
            crop=crop,
        )

    return make


def _ray_depth(height, width, focal, normal, offset):
    """z of a plane n·p = offset for every pixel of a pinhole camera; infinite if it misses."""
    v, u = np.mgrid[:height, :width]
    rays = np.stack([(u - width / 2) / focal, (v - height / 2) / focal, np.ones((height, width))])
    facing = np.tensordot(normal, rays, 1)
    with np.errstate(divide="ignore"):
        z = offset / facing
    return np.where((facing != 0) & (z > 0), z, np.inf)


@pytest.fixture
def table():
    """Depth of a tilted table with cuboids on it, ray-traced, and the boxes of the cuboids.

    A cuboid is drawn as a second plane, `height` nearer to the camera along the table's normal,
    inside its box.
    """

    def make(boxes=((100, 80, 160, 140), (300, 200, 420, 240)), heights=(0.06, 0.03), noise=0.0):
        normal = np.array([0.05, 0.75, 0.65])
        normal /= np.linalg.norm(normal)
        depth = _ray_depth(480, 640, 460.0, normal, 0.5)
        for (left, top, right, bottom), height in zip(boxes, heights, strict=True):
            above = _ray_depth(480, 640, 460.0, normal, 0.5 - height)
            depth[top:bottom, left:right] = above[top:bottom, left:right]
        generator = np.random.default_rng(0)
        depth = depth * (1 + noise * generator.normal(size=depth.shape))
        depth[depth > 5] = 0  # the camera does not see that far
        return depth.astype(np.float32), np.array(boxes, np.float32).reshape(-1, 4)

    return make
