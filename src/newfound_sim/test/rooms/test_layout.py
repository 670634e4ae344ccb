# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from newfound_sim.materials import Material
from newfound_sim.rooms.layout import DOOR_CLEARANCE, Layout, centred
from newfound_sim.rooms.pieces import Piece, overlap
from newfound_sim.rooms.plan import Opening, Plan
from newfound_sim.rooms.shapes import box

GREY = Material("diffuse", (0.5, 0.5, 0.5))


def case(width=1.0, depth=0.5, height=1.0):
    return Piece("case", [box(GREY, (0, depth / 2, 0), (width, depth, height))])


@pytest.fixture
def layout():
    door = Opening("door", 0, 1.0, 0.9, 0.0, 2.0)
    window = Opening("window", 2, 2.0, 1.5, 0.9, 2.0)
    return Layout(Plan(4.0, 3.0, 2.5, (door, window)), np.random.default_rng(0))


@pytest.mark.parametrize("wall", range(4))
def test_a_piece_at_a_wall_turns_its_back_to_it(layout, wall):
    found = layout.at_wall(case(height=0.8), [wall])
    inward = [(0, 1), (-1, 0), (0, -1), (1, 0)][wall]
    assert found.facing == inward
    low, high = found.box[:, :2]
    gaps = (low[1], 4.0 - high[0], 3.0 - high[1], low[0])
    assert gaps[wall] == pytest.approx(0.02)


def test_nothing_stands_before_the_door(layout):
    for _ in range(20):
        layout.at_wall(case(0.3, 0.3))
    doorway = np.array([[0.55, 0.0], [1.45, DOOR_CLEARANCE]])
    assert not any(overlap(p.box[:, :2], doorway) for p in layout.placed)


def test_high_pieces_leave_the_window_free_and_low_ones_may_stand_below(layout):
    assert layout.try_at(case(height=2.0), 2, 2.0) is None
    assert layout.try_at(case(height=0.8), 2, 2.0) is not None


def test_pieces_do_not_overlap_however_many_are_tried(layout):
    for _ in range(30):
        layout.at_wall(case(0.8, 0.6), clearance=0.2)
        layout.in_the_middle(case(0.5, 0.5))
    boxes = [p.box for p in layout.placed]
    assert len(boxes) >= 4
    assert not any(overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_a_piece_too_large_for_the_room_is_not_placed(layout):
    assert layout.at_wall(case(width=5.0)) is None
    assert layout.at_wall(case(height=3.0), [1]) is None


def test_beside_and_above_relate_to_a_neighbour(layout):
    first = layout.try_at(case(1.0, 0.5, 0.8), 1, 1.5)
    hung = layout.above(first, case(0.4, 0.05, 0.4), 1.2)
    assert layout.along(hung) == pytest.approx(1.5)
    assert hung.box[0, 2] == pytest.approx(1.2)
    next_to = layout.beside(first, case(0.4, 0.4, 0.5), gap=0.1)
    assert abs(layout.along(next_to) - 1.5) == pytest.approx(0.5 + 0.1 + 0.2)


def test_centred_puts_the_middle_of_the_box_where_asked():
    placed = centred(case(1.0, 0.4), 2.0, 1.0, 3)
    np.testing.assert_allclose(placed.box[:, :2].mean(axis=0), [2.0, 1.0])
