# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from newfound_sim.rooms.names import BUILDINGS, CATEGORIES
from newfound_sim.rooms.room import build_room
from newfound_sim.rooms.viewpoints import (
    HEIGHTS,
    OVERHEAD,
    ROBOT_RADIUS,
    Stand,
    floor_map,
    look_around,
    random_view,
    view_from,
)


def gap_to_anything(room, x, y):
    """Distance on the floor from a point to the nearest wall or low piece, by plain geometry."""
    gaps = [x, y, room.plan.width - x, room.plan.depth - y]
    for placed in room.furniture:
        if not placed.piece.flat and placed.box[0, 2] <= OVERHEAD:
            low, high = placed.box[:, :2]
            outside = np.maximum(np.maximum(low - (x, y), (x, y) - high), 0)
            gaps.append(np.linalg.norm(outside))
    return min(gaps)


@pytest.mark.parametrize(("building", "category"), [(b, c) for b in BUILDINGS for c in CATEGORIES])
def test_the_camera_stands_on_free_floor_at_a_robots_height(building, category):
    room = build_room(building, category, 1)
    floor = floor_map(room)
    for seed in range(2):
        view = random_view(room, floor, np.random.default_rng(seed), (32, 24))
        x, y, z = view.eye
        assert HEIGHTS[0] <= z <= HEIGHTS[1]
        assert gap_to_anything(room, x, y) >= ROBOT_RADIUS - 0.02


def test_every_free_cell_keeps_the_robot_off_everything():
    room = build_room("cottage", "living_room", 2)
    floor = floor_map(room)
    for row, column in np.argwhere(floor.free)[::7]:
        assert gap_to_anything(room, (column + 0.5) * 0.05, (row + 0.5) * 0.05) >= ROBOT_RADIUS


def test_looking_at_the_bed_tells_more_than_looking_away():
    room = build_room("institute", "bedroom", 0)
    floor = floor_map(room)
    bed = next(p for p in room.furniture if p.piece.name == "bed").box[:, :2].mean(axis=0)
    rows, columns = np.nonzero(floor.free)
    far = np.argmax((columns * 0.05 - bed[0]) ** 2 + (rows * 0.05 - bed[1]) ** 2)
    x, y = columns[far] * 0.05 + 0.025, rows[far] * 0.05 + 0.025
    towards = float(np.arctan2(bed[1] - y, bed[0] - x))
    there = look_around(room, floor, Stand(x, y, towards), 70)
    away = look_around(room, floor, Stand(x, y, towards + np.pi), 70)
    assert there > away


def test_a_view_looks_along_its_heading_and_pitch():
    view = view_from(Stand(1.0, 2.0, np.pi / 2), (64, 48), height=1.0, pitch=-0.1, fov=60)
    forward = np.subtract(view.target, view.eye)
    np.testing.assert_allclose(forward, [0, np.cos(0.1), -np.sin(0.1)], atol=1e-9)
