# SPDX-License-Identifier: Apache-2.0
"""Cluttered table tops by ray casting: boxes, cylinders, balls and bowls that touch and stack.

The camera (focal length, size, distance, pitch, roll), what is around the table (floor, wall,
shelf) and the noise of the sensor differ from scene to scene, so a rule that holds here does not
lean on one camera. `python -m studies.depth_proposals` measures on them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np

FAR = np.float32(8.0)  # m; farther away nothing is measured
MIN_PIXELS, MIN_VISIBLE = 0.0006, 0.35  # of the image, and of an object, for it to count


@dataclass(frozen=True)
class Solid:
    """A convex thing (or a bowl) with a vertical axis, turned about it."""

    kind: str  # box, cylinder, ball, bowl
    size: np.ndarray  # half sides, m; of round things the radius twice, then half the height
    turn: float
    centre: np.ndarray  # m in the world, z up

    def reach(self, way: np.ndarray) -> float:
        """How far the footprint extends from the centre in a horizontal direction."""
        if self.kind != "box":
            return float(self.size[0])
        c, s = np.cos(self.turn), np.sin(self.turn)
        local = np.array([c * way[0] + s * way[1], -s * way[0] + c * way[1]])
        return float(np.abs(local) @ self.size[:2])


@dataclass(frozen=True)
class ClutteredScene:
    """What a camera sees, and the truth."""

    rgb: np.ndarray
    depth: np.ndarray  # m; 0 where nothing was measured
    boxes: np.ndarray
    labels: np.ndarray  # int [H, W]; 0 is no object
    focal: float  # pixels
    up: np.ndarray  # in the camera's frame


def clutter(seed: int, width: int = 640, height: int = 480) -> ClutteredScene:
    """One scene; the same seed gives the same."""
    rng = np.random.default_rng(seed)
    solids = _arrangement(rng)
    rotation, position = _camera(rng)
    focal = width * rng.uniform(0.7, 1.1)
    rays = _rays(width, height, focal, rotation)
    shown, surfaces = _cast(rng, rays, position, solids)
    distance, normals, labels = shown
    rgb = _shade(rng, normals, labels, surfaces)
    counts = np.bincount(labels.ravel(), minlength=len(solids) + 1)[1 : len(solids) + 1]
    boxes = []
    for number in range(len(solids)):
        whole = surfaces["whole"][number]
        if counts[number] < MIN_PIXELS * labels.size or counts[number] < MIN_VISIBLE * whole:
            labels = np.where(labels == number + 1, 0, labels)
            continue
        rows, columns = np.nonzero(labels == number + 1)
        boxes.append([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
    measured = _sensor(rng, distance, focal)  # rays have unit depth
    up = rotation.T @ np.array([0, 0, 1.0])
    return ClutteredScene(
        rgb, measured, np.array(boxes, np.float32).reshape(-1, 4), labels, focal, up
    )


def table_top(
    solids: list[Solid], distance: float, pitch: float, focal: float, size: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Depth without noise, labels, rotation and position of a camera that looks at the origin.

    It is `distance` metres away and looks down by `pitch` degrees; rotation's columns are the
    axes of the camera in the world, whose z = 0 is an endless table.
    """
    c, s = np.cos(np.radians(pitch)), np.sin(np.radians(pitch))
    rotation = np.array([[1, 0, 0], [0, -s, c], [0, -c, -s]])
    position = np.array([0, -c, s]) * distance
    rays = _rays(*size, focal, rotation)
    depth = np.full(rays.shape[:2], FAR, np.float32)
    labels = np.zeros(depth.shape, np.int32)
    with np.errstate(divide="ignore"):
        hits = [(0, -position[2] / rays[..., 2])]
    hits += [(n, t) for n, solid in enumerate(solids, 1) for t, _ in _hits(solid, rays, position)]
    for number, t in hits:
        nearer = (t > 0.05) & (t < depth)
        depth[nearer], labels[nearer] = t[nearer], number
    return np.where(depth < FAR, depth, 0), labels, rotation, position


def _solid(rng: np.random.Generator, scale: float = 1.0) -> Solid:
    kind = rng.choice(["box", "box", "cylinder", "ball", "bowl"])
    if kind == "box":
        size = rng.uniform([0.025, 0.02, 0.015], [0.1, 0.06, 0.1])
    elif kind == "cylinder":
        radius = rng.uniform(0.02, 0.05)
        size = np.array([radius, radius, rng.uniform(0.02, 0.1)])
    elif kind == "ball":
        size = np.full(3, rng.uniform(0.025, 0.06))
    else:
        radius = rng.uniform(0.05, 0.09)
        size = np.array([radius, radius, radius * 0.5])  # a hemisphere: half height r/2
    return Solid(str(kind), scale * size, rng.uniform(0, np.pi), np.zeros(3))


def _arrangement(rng: np.random.Generator) -> list[Solid]:
    """Solids on the plane z = 0: alone, touching, or on top of a box."""
    solids: list[Solid] = []
    count = int(rng.integers(3, 16))
    for _ in range(20 * count):
        if len(solids) == count:
            break
        new, kind = _solid(rng), rng.random()
        if solids and kind < 0.25:  # stacked
            below = solids[rng.integers(len(solids))]
            if below.kind not in ("box", "cylinder"):
                continue
            top = below.centre[2] + below.size[2]
            place = below.centre[:2] + rng.uniform(-0.01, 0.01, 2)
            place = np.array([*place, top + 0.8 * new.size[2]])
            new = Solid(new.kind, new.size * 0.8, new.turn, place)
            if max(new.size[:2]) > 1.3 * min(below.size[:2]) or new.kind == "ball" or top > 0.3:
                continue
        elif solids and kind < 0.7:  # touching
            other = solids[rng.integers(len(solids))]
            angle = rng.uniform(0, 2 * np.pi)
            way = np.array([np.cos(angle), np.sin(angle)])
            apart = other.reach(way) + new.reach(way) + rng.choice([0, 0.002, 0.01])
            place = other.centre[:2] + apart * way
            new = Solid(new.kind, new.size, new.turn, np.array([*place, new.size[2]]))
        else:
            place = rng.uniform(-0.3, 0.3, 2)
            new = Solid(new.kind, new.size, new.turn, np.array([*place, new.size[2]]))
        if np.abs(new.centre[:2]).max() < 0.4 and all(_apart(new, s) for s in solids):
            solids.append(new)
    return solids


def _apart(one: Solid, other: Solid) -> bool:
    if abs(one.centre[2] - other.centre[2]) >= one.size[2] + other.size[2] - 1e-6:
        return True
    way = other.centre[:2] - one.centre[:2]
    length = float(np.linalg.norm(way))
    way = way / max(length, 1e-9)
    return one.reach(way) + other.reach(way) <= length + 1e-6


def _camera(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rotation (columns: the camera's axes in the world) and position; it looks at the table."""
    pitch, roll = np.radians(rng.uniform(22, 80)), np.radians(rng.normal(0, 6))
    away = np.exp(rng.uniform(np.log(0.45), np.log(1.6)))
    forward = np.array([0, np.cos(pitch), -np.sin(pitch)])
    right = np.array([1.0, 0, 0])
    down = np.cross(forward, right)
    right, down = (
        np.cos(roll) * right + np.sin(roll) * down,
        np.cos(roll) * down - np.sin(roll) * right,
    )
    target = np.array([*rng.uniform(-0.1, 0.1, 2), 0.03])
    return np.stack([right, down, forward], 1), target - away * forward


def _rays(width: int, height: int, focal: float, rotation: np.ndarray) -> np.ndarray:
    x = (np.arange(width) - (width - 1) / 2) / focal
    y = (np.arange(height) - (height - 1) / 2) / focal
    grid = np.stack([*np.meshgrid(x, y), np.ones((height, width))], -1)
    return (grid @ rotation.T).astype(np.float32)


def _cast(rng, rays, position, solids):  # type: ignore[no-untyped-def]
    """Nearest hit of every ray: parameter, normal, number of the solid; and the whole areas."""
    shape = rays.shape[:2]
    nearest = np.full(shape, FAR, np.float32)
    normals = np.zeros((*shape, 3), np.float32)
    labels = np.zeros(shape, np.int32)
    ids = np.zeros(shape, np.int32)

    def paint(t: np.ndarray, n: np.ndarray, number: int, material: int) -> int:
        hit = (t > 0.05) & (t < FAR)
        nearer = hit & (t < nearest)
        nearest[nearer], normals[nearer] = t[nearer], np.broadcast_to(n, (*shape, 3))[nearer]
        labels[nearer], ids[nearer] = number, material
        return int(hit.sum())

    edge = rng.uniform(0.42, 1.2)  # half side of the table
    _plane(paint, rays, position, np.array([0, 0, 1.0]), 0.0, edge, 1)
    if rng.random() < 0.7:
        _plane(paint, rays, position, np.array([0, 0, 1.0]), -rng.uniform(0.4, 0.8), 9.0, 2)
    if rng.random() < 0.5:
        _plane(paint, rays, position, np.array([0, -1.0, 0]), -rng.uniform(0.45, 1.5), 9.0, 3)
    whole = []
    for number, solid in enumerate(solids, 1):
        hits = np.zeros(shape, bool)
        for t, n in _hits(solid, rays, position):
            hits |= (t > 0.05) & (t < FAR)
            paint(t, n, number, 3 + number)
        whole.append(int(hits.sum()))
    return (np.where(nearest < FAR, nearest, 0), normals, labels), {"ids": ids, "whole": whole}


def _plane(paint, rays, position, normal, offset, edge, material):  # type: ignore[no-untyped-def]
    along = rays @ normal.astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = ((offset - position @ normal) / along).astype(np.float32)
        t = np.where(np.isfinite(t), t, FAR)
        if edge < 9:
            where = position.astype(np.float32) + t[..., None] * rays
            t = np.where(np.abs(where[..., :2]).max(-1) <= edge, t, FAR)
    paint(t, normal, 0, material)


def _hits(solid: Solid, rays: np.ndarray, position: np.ndarray) -> Iterator[tuple]:
    c, s = np.cos(solid.turn), np.sin(solid.turn)
    turn = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]], np.float32)
    o = (turn @ (position - solid.centre)).astype(np.float32)
    d = rays @ turn.T
    with np.errstate(divide="ignore", invalid="ignore"):
        if solid.kind == "box":
            one, other = (-solid.size - o) / d, (solid.size - o) / d
            low, high = np.minimum(one, other), np.maximum(one, other)
            t, out = low.max(-1), high.min(-1)
            axis = low.argmax(-1)
            n = -np.sign(np.take_along_axis(d, axis[..., None], -1)) * np.eye(3)[axis]
            yield np.where(t < out, t, FAR).astype(np.float32), (n @ turn).astype(np.float32)
        elif solid.kind == "cylinder":
            radius, half = solid.size[0], solid.size[2]
            for t in _quadratic(o[:2], d[..., :2], radius):
                p = o + t[..., None] * d
                n = np.concatenate([p[..., :2] / radius, 0 * p[..., :1]], -1)
                yield np.where(np.abs(p[..., 2]) <= half, t, FAR), n @ turn
            t = (half - o[2]) / d[..., 2]
            p = o + t[..., None] * d
            inside = (p[..., :2] ** 2).sum(-1) <= radius**2
            yield np.where(inside, t, FAR), np.array([0, 0, 1.0], np.float32)
        elif solid.kind == "ball":
            for t in _quadratic(o, d, solid.size[0]):
                yield t, (o + t[..., None] * d) / solid.size[0] @ turn
        else:  # a bowl: the lower half of a sphere whose centre is at its rim, open above
            radius = solid.size[0]
            o = o - np.array([0, 0, solid.size[2]], np.float32)
            for wall in (1.0, 0.93):
                for t in _quadratic(o, d, wall * radius):
                    p = o + t[..., None] * d
                    n = p / (wall * radius)
                    n = np.where((n * d).sum(-1, keepdims=True) > 0, -n, n)
                    yield np.where(p[..., 2] <= 0, t, FAR), n @ turn


def _quadratic(o: np.ndarray, d: np.ndarray, radius: float) -> list[np.ndarray]:
    a, b, c = (d * d).sum(-1), d @ o, o @ o - radius**2
    root = np.sqrt(b * b - a * c)
    return [
        np.where(np.isfinite(t) & (t > 0), t, FAR).astype(np.float32)
        for t in ((-b - root) / a, (-b + root) / a)
    ]


def _shade(rng, normals, labels, surfaces):  # type: ignore[no-untyped-def]
    # Printed boxes: patches of two colours on each thing, so colour alone separates nothing.
    ids = surfaces["ids"]
    patches = cv2.GaussianBlur(rng.normal(size=ids.shape).astype(np.float32), (0, 0), 9) > 0
    ids = 2 * ids + (patches & (rng.random(ids.max() + 1) < 0.6)[ids])
    colours = rng.uniform(30, 230, (ids.max() + 1, 3)).astype(np.float32)
    light = np.array([0.3, -0.4, 0.85], np.float32)
    shaded = colours[ids] * (0.5 + 0.5 * np.clip(normals @ light, 0, 1))[..., None]
    noise = rng.normal(0, 5, (*ids.shape, 3)).astype(np.float32)
    return np.clip(shaded + noise, 0, 255).astype(np.uint8)


def _sensor(rng: np.random.Generator, depth: np.ndarray, focal: float) -> np.ndarray:
    """Kinect (quantised disparity, shadow), stereo (smooth noise, flying pixels) or ideal."""
    kind = rng.choice(["kinect", "kinect", "stereo", "ideal"])
    if kind == "ideal":
        return depth
    shape = depth.shape
    disparity = np.where(depth > 0, 0.075 * focal / np.maximum(depth, 1e-3), 0).astype(np.float32)
    lit = depth > 0
    column = np.arange(shape[1]) + disparity
    lit &= column >= np.maximum.accumulate(column, 1) - 1  # the projector's shadow
    if kind == "kinect":
        moved = disparity + rng.normal(0, 0.07, shape)
        disparity = np.rint(8 * moved) / 8
        lit &= rng.random(shape) > 0.02
    else:
        blurred = cv2.GaussianBlur(disparity, (0, 0), 1.2)
        step = np.abs(blurred - disparity) > 0.3
        disparity = np.where(step & (rng.random(shape) < 0.7), blurred, disparity)
        rough = rng.normal(0, rng.uniform(0.1, 0.5), shape).astype(np.float32)
        disparity = disparity + cv2.GaussianBlur(rough, (0, 0), 1.0)
        blobs = cv2.GaussianBlur(rng.normal(size=shape).astype(np.float32), (0, 0), 6)
        lit &= blobs < 2.3 * blobs.std()
    with np.errstate(divide="ignore", invalid="ignore"):
        measured = 0.075 * focal / disparity
    return np.where(lit & (disparity > 0.5), measured, 0).astype(np.float32)
