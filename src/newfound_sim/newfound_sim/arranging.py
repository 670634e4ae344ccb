# SPDX-License-Identifier: Apache-2.0
"""Random workbench scenes: objects, their poses, and the camera pose."""

from collections.abc import Sequence

import numpy as np
import shapely
import shapely.affinity

from newfound_sim.camera import CameraModel
from newfound_sim.lights import named, vary
from newfound_sim.objects import build
from newfound_sim.workbench import Bench, CameraPose, Domain, PlacedObject

GAP = 0.012  # metres left free between two objects
AREA = (0.28, 0.2)  # half the width and depth of the table's used part
TRIES = 60


def arrange(
    rng: np.random.Generator, labels: Sequence[str], seeds: Sequence[int]
) -> tuple[PlacedObject, ...]:
    """Place the objects without overlap; drop those that do not fit."""
    placed: list[PlacedObject] = []
    taken: list[shapely.Geometry] = []
    for label, seed in zip(labels, seeds, strict=True):
        outline = shapely.Polygon(build(label, seed).footprint()).buffer(GAP / 2)
        for _ in range(TRIES):
            x, y = rng.uniform(-1, 1, 2) * AREA
            thing = PlacedObject(label, seed, float(x), float(y), float(rng.uniform(0, 360)))
            turned = shapely.affinity.rotate(outline, thing.yaw_degrees, origin=(0, 0))
            here = shapely.affinity.translate(turned, thing.x, thing.y)
            if not any(here.intersects(other) for other in taken):
                placed.append(thing)
                taken.append(here)
                break
    return tuple(placed)


def bench_in(domain: Domain, objects: Sequence[PlacedObject], rng: np.random.Generator) -> Bench:
    """A bench in a domain, with random variations of its light and table."""
    lighting = vary(named(domain.illumination), rng)
    return Bench(tuple(objects), lighting, domain.background, int(rng.integers(8)))


def overview(rng: np.random.Generator) -> CameraPose:
    """A random camera pose that sees the whole work area."""
    distance, up = rng.uniform(0.58, 0.74), np.radians(rng.uniform(42, 62))
    around = np.radians(rng.uniform(-115, -65))
    return _orbit(distance, around, up, (0.0, float(rng.uniform(-0.03, 0.03)), 0.0))


def close_up(rng: np.random.Generator, thing: PlacedObject, camera: CameraModel) -> CameraPose:
    """A random camera pose from which the object fills most of a square image."""
    model = build(thing.label, thing.seed)
    up = np.radians(rng.uniform(34, 66))
    around = np.radians(rng.uniform(0, 360))
    extent = model.radius * rng.uniform(0.92, 1.18)
    distance = extent / np.sin(np.radians(camera.fov_degrees) / 2)
    middle = thing.pose()[:3] @ np.append(model.middle, 1.0)
    middle[:2] += rng.uniform(-0.1, 0.1, 2) * extent
    return _orbit(distance, around, up, tuple(map(float, middle)))


def _orbit(distance: float, around: float, up: float, target: tuple) -> CameraPose:
    level = distance * np.cos(up)
    eye = (level * np.cos(around), level * np.sin(around), distance * np.sin(up))
    x, y, z = (float(a + b) for a, b in zip(eye, target, strict=True))
    return CameraPose((x, y, z), target)
