# SPDX-License-Identifier: Apache-2.0
"""A robot's path through a building: smooth within each room, a cut at each door."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from newfound_sim.errors import ScenarioError
from newfound_sim.rendering import View
from newfound_sim.rooms.names import CATEGORIES, check
from newfound_sim.rooms.room import Room, build_room, generator
from newfound_sim.rooms.viewpoints import (
    CELL,
    FloorMap,
    Stand,
    choose_stand,
    floor_map,
    view_from,
)

FOV = 72.0
CAMERA_HEIGHT = 1.1
PITCH = -0.12  # radians: slightly down
STOPS = 3  # stands in a room that the way connects
TURNING = 0.7  # metres that could be driven while turning by one radian


def walk(
    building: str,
    lighting: str,
    seed: int,
    frames_per_room: int,
    size: tuple[int, int] = (320, 240),
) -> Iterator[tuple[View, str, Room]]:
    """Views along a way through a building, each with its true category and its room.

    The robot starts in the corridor and comes back to it between any two rooms. The lighting
    is checked here and used when the views are rendered, see `images.view_image`.
    """
    check("building", building)
    check("lighting", lighting)
    if frames_per_room < 2:
        raise ScenarioError(f"frames_per_room must be at least 2, got {frames_per_room}")
    rng = generator(building, seed, "walk")
    corridor = build_room(building, "corridor", seed)
    others = [name for name in CATEGORIES if name != "corridor"]
    for category in rng.permutation(others):
        yield from _visit(corridor, rng, frames_per_room, size)
        yield from _visit(build_room(building, str(category), seed), rng, frames_per_room, size)


def _visit(
    room: Room, rng: np.random.Generator, frames: int, size: tuple[int, int]
) -> Iterator[tuple[View, str, Room]]:
    for stand in way_through(room, rng, frames):
        view = view_from(stand, size, height=CAMERA_HEIGHT, pitch=PITCH, fov=FOV)
        yield view, room.category, room


def way_through(room: Room, rng: np.random.Generator, frames: int) -> list[Stand]:
    """Stands along a smooth way through one room, from one good outlook to the next."""
    floor = floor_map(room)
    stops = _stops(room, floor, rng)
    legs = [shortest_way(floor, a, b) for a, b in itertools.pairwise(stops)]
    headings = np.unwrap([stop.heading for stop in stops])
    # A leg lasts as long as its way and its turn need: no spinning on short legs.
    cost = [_length(w) + TURNING * abs(t) for w, t in zip(legs, np.diff(headings), strict=True)]
    starts = np.concatenate([[0.0], np.cumsum(np.maximum(cost, CELL))])
    points, turns = [], []
    for now in np.linspace(0, starts[-1], frames):
        leg = min(int(np.searchsorted(starts, now, side="right")) - 1, len(legs) - 1)
        share = (now - starts[leg]) / (starts[leg + 1] - starts[leg])
        points.append(_along(legs[leg], share))
        eased = share * share * (3 - 2 * share)
        turns.append(headings[leg] + eased * (headings[leg + 1] - headings[leg]))
    smooth = _rounded(np.array(points), floor)
    return [Stand(float(x), float(y), float(h)) for (x, y), h in zip(smooth, turns, strict=True)]


def shortest_way(floor: FloorMap, start: Stand, end: Stand) -> np.ndarray:
    """Points [N, 2] from start to end over free floor."""
    rows, columns = np.nonzero(floor.free)
    number = np.full(floor.free.shape, -1)
    number[rows, columns] = np.arange(len(rows))
    a, b, cost = [], [], []
    for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
        inside = (rows + dy < number.shape[0]) & (columns + dx >= 0)
        inside &= columns + dx < number.shape[1]
        here = np.nonzero(inside)[0]
        there = number[rows[here] + dy, columns[here] + dx]
        a.append(here[there >= 0])
        b.append(there[there >= 0])
        cost.append(np.full(len(a[-1]), np.hypot(dy, dx)))
    size = (len(rows), len(rows))
    graph = sparse.csr_matrix((np.concatenate(cost), (np.concatenate(a), np.concatenate(b))), size)
    source = number[int(start.y / CELL), int(start.x / CELL)]
    cell = number[int(end.y / CELL), int(end.x / CELL)]
    _, before = dijkstra(graph, directed=False, indices=source, return_predecessors=True)
    way = [cell]
    while cell != source:
        cell = before[cell]
        way.append(cell)
    return np.column_stack([columns[way[::-1]], rows[way[::-1]]]) * CELL + CELL / 2


def _stops(room: Room, floor: FloorMap, rng: np.random.Generator) -> list[Stand]:
    stops = [choose_stand(room, floor, rng, FOV) for _ in range(STOPS)]
    if room.category != "corridor":
        return stops
    # Down the corridor and looking ahead: no turning on the spot before a wall.
    ahead = float(rng.choice([-1.0, 1.0]))
    stops.sort(key=lambda stop: ahead * stop.y)
    return [Stand(s.x, s.y, ahead * np.pi / 2 + float(rng.normal(0, 0.12))) for s in stops]


def _rounded(points: np.ndarray, floor: FloorMap) -> np.ndarray:
    """Round the corners of a way, as far as the floor is free."""
    for reach in (len(points) // 8, len(points) // 16, len(points) // 32):
        padded = np.pad(points, ((reach, reach), (0, 0)), mode="edge")
        mean = np.ones(2 * reach + 1) / (2 * reach + 1)
        smooth = np.stack([np.convolve(axis, mean, mode="valid") for axis in padded.T], axis=1)
        if all(floor.is_free(x, y) for x, y in smooth):
            return smooth
    return points


def _along(way: np.ndarray, share: float) -> np.ndarray:
    """The point after a share of a way's length."""
    steps = np.linalg.norm(np.diff(way, axis=0), axis=1)
    reached = np.concatenate([[0.0], np.cumsum(steps)])
    return np.array([np.interp(share * reached[-1], reached, axis) for axis in way.T])


def _length(way: np.ndarray) -> float:
    return float(np.linalg.norm(np.diff(way, axis=0), axis=1).sum())
