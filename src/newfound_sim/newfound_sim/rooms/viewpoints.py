# SPDX-License-Identifier: Apache-2.0
"""Robot poses in a room: free floor, and views from which the room can be recognised."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from scipy import ndimage

from newfound_sim.errors import ScenarioError
from newfound_sim.rendering import View
from newfound_sim.rooms.programs import TELLING
from newfound_sim.rooms.room import Room

CELL = 0.05  # metres of a grid cell
ROBOT_RADIUS = 0.25
OVERHEAD = 1.5  # what begins above this height does not block a robot
WALL = -1
HEIGHTS = (0.5, 1.4)  # of the camera
FURNITURE_MIDDLE = 0.7
RAYS = 41


@dataclass(frozen=True, eq=False)
class FloorMap:
    """The floor of a room as a grid; row is y, column is x."""

    seen: np.ndarray  # [H, W] int: 0 free, WALL, or 1 + the index of what stands there
    free: np.ndarray  # [H, W] bool: the robot's middle may be here
    telling: np.ndarray  # [1 + things + 1] int: by value of `seen`, which piece of TELLING or -1

    def is_free(self, x: float, y: float) -> bool:
        """Whether the robot may stand at a point."""
        row, column = int(y / CELL), int(x / CELL)
        inside = 0 <= row < self.free.shape[0] and 0 <= column < self.free.shape[1]
        return inside and bool(self.free[row, column])


@dataclass(frozen=True)
class Stand:
    """A pose on the floor, heading in radians from +x towards +y."""

    x: float
    y: float
    heading: float


def floor_map(room: Room) -> FloorMap:
    """The connected floor on which a robot can move without touching anything."""
    rows, columns = int(room.plan.depth / CELL), int(room.plan.width / CELL)
    seen = np.zeros((rows, columns), np.int32)
    blocked = np.zeros((rows + 2, columns + 2), np.uint8)
    blocked[[0, -1]] = 1
    blocked[:, [0, -1]] = 1
    for index, placed in enumerate(room.furniture):
        low, high = placed.box
        if placed.piece.flat or low[2] > OVERHEAD:
            continue
        y0, y1 = int(low[1] / CELL), int(np.ceil(high[1] / CELL))
        x0, x1 = int(low[0] / CELL), int(np.ceil(high[0] / CELL))
        seen[y0:y1, x0:x1] = index + 1
        blocked[y0 + 1 : y1 + 1, x0 + 1 : x1 + 1] = 1
    distance = cv2.distanceTransform(1 - blocked, cv2.DIST_L2, 5)[1:-1, 1:-1] * CELL
    regions, count = ndimage.label(distance > ROBOT_RADIUS + CELL)
    if count == 0:
        raise ScenarioError(
            f"{room.building} {room.category} {room.seed} has no floor for a robot of radius "
            f"{ROBOT_RADIUS} m: use another seed"
        )
    sizes = ndimage.sum_labels(np.ones_like(regions), regions, np.arange(1, count + 1))
    names = list(TELLING[room.category])
    kinds = [names.index(p.piece.name) if p.piece.name in names else -1 for p in room.furniture]
    return FloorMap(seen, regions == 1 + int(np.argmax(sizes)), np.array([-1, *kinds, -1]))


def look_around(room: Room, floor: FloorMap, stand: Stand, fov: float) -> float:
    """How much a view tells of the room, by casting rays over the floor: higher is better."""
    things, distance = _cast(floor, stand, fov)
    too_near = float(np.mean(distance < 0.8))
    if room.category == "corridor":
        return float(distance[RAYS // 3 : -RAYS // 3].mean()) / 4 - too_near
    told = 0.0
    kinds = floor.telling[things]  # the wall, -1, is the last entry
    for kind, weight in enumerate(TELLING[room.category].values()):
        seen = kinds == kind
        # A quarter of the picture is enough; beyond arm's length a piece is seen whole.
        whole = float(np.mean(np.minimum(distance[seen] / 1.5, 1.0))) if seen.any() else 0.0
        told += weight * min(4.0 * float(seen.mean()), 1.0) * whole
    return told + 0.3 * float(np.minimum(distance, 3.0).mean()) - 3.0 * too_near


def _cast(floor: FloorMap, stand: Stand, fov: float) -> tuple[np.ndarray, np.ndarray]:
    """What rays over the floor meet first (see FloorMap.seen), from left to right, and how far."""
    angles = stand.heading + np.radians(np.linspace(fov / 2, -fov / 2, RAYS))
    reach = np.arange(CELL, 12.0, CELL)
    columns = np.floor((stand.x + np.cos(angles)[:, None] * reach) / CELL).astype(int)
    rows = np.floor((stand.y + np.sin(angles)[:, None] * reach) / CELL).astype(int)
    high, wide = floor.seen.shape
    outside = (rows < 0) | (rows >= high) | (columns < 0) | (columns >= wide)
    hit = np.where(outside, WALL, floor.seen[rows.clip(0, high - 1), columns.clip(0, wide - 1)])
    first = np.where((hit != 0).any(axis=1), (hit != 0).argmax(axis=1), len(reach) - 1)
    return hit[np.arange(RAYS), first], reach[first]


def choose_stand(
    room: Room, floor: FloorMap, rng: np.random.Generator, fov: float, tries: int = 100
) -> Stand:
    """A random stand among those from which the room is easy to recognise."""
    rows, columns = np.nonzero(floor.free)
    picks = rng.integers(len(rows), size=tries)
    stands, scores = [], []
    for pick in picks:
        x, y = (columns[pick] + 0.5) * CELL, (rows[pick] + 0.5) * CELL
        heading = float(rng.uniform(-np.pi, np.pi))
        if room.category == "corridor":  # along it, either way, never at the wall beside
            heading = float(rng.choice([-1, 1]) * np.pi / 2 + rng.normal(0, 0.16))
        stands.append(Stand(float(x), float(y), heading))
        scores.append(look_around(room, floor, stands[-1], fov))
    best = np.argsort(scores)[::-1][: max(tries // 8, 1)]
    return stands[int(rng.choice(best))]


def view_from(
    stand: Stand,
    size: tuple[int, int],
    *,
    height: float,
    pitch: float,
    fov: float,
    roll: float = 0.0,
) -> View:
    """The view of a camera at a height on a robot; pitch in radians, up is positive."""
    level = np.cos(pitch)
    forward = np.array(
        [np.cos(stand.heading) * level, np.sin(stand.heading) * level, np.sin(pitch)]
    )
    eye = np.array([stand.x, stand.y, height])
    side = np.array([np.sin(stand.heading), -np.cos(stand.heading), 0.0])
    up = np.array([0.0, 0.0, 1.0]) + np.tan(roll) * side
    target = eye + forward
    return View(_point(eye), _point(target), size[0], size[1], fov, _point(up))


def random_view(
    room: Room, floor: FloorMap, rng: np.random.Generator, size: tuple[int, int]
) -> View:
    """A plausible picture a robot would take of the room."""
    fov = float(rng.uniform(66, 82))
    stand = choose_stand(room, floor, rng, fov)
    height = float(rng.uniform(*HEIGHTS))
    distance = float(np.median(_cast(floor, stand, fov)[1]))
    down = np.arctan2(height - FURNITURE_MIDDLE, distance)  # towards what stands there
    pitch = float(-0.6 * down + rng.normal(0, np.radians(2.5)))
    roll = float(rng.normal(0, 0.015))
    return view_from(stand, size, height=height, pitch=pitch, fov=fov, roll=roll)


def _point(vector: np.ndarray) -> tuple[float, float, float]:
    x, y, z = (float(v) for v in vector)
    return x, y, z
