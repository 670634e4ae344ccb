# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from newfound_sim.rooms.buildings import style_of
from newfound_sim.rooms.names import BUILDINGS, CATEGORIES
from newfound_sim.rooms.plan import Plan, draw_plan


def test_a_place_along_a_wall_is_to_the_right_of_who_has_the_wall_in_the_back():
    plan = Plan(4.0, 6.0, 2.5, ())
    assert plan.at_wall(0, 1.0, 0.5) == (1.0, 0.5)
    assert plan.at_wall(1, 1.0, 0.5) == (3.5, 1.0)
    assert plan.at_wall(2, 1.0, 0.5) == (3.0, 5.5)
    assert plan.at_wall(3, 1.0, 0.5) == (0.5, 5.0)


@pytest.mark.parametrize("building", BUILDINGS)
@pytest.mark.parametrize("category", CATEGORIES)
def test_doors_and_windows_lie_within_their_walls_and_apart(building, category):
    for seed in range(5):
        plan = draw_plan(category, style_of(building).shell, np.random.default_rng(seed))
        assert any(opening.kind == "door" for opening in plan.openings)
        for wall in range(4):
            end = 0.0
            for opening in plan.on_wall(wall):
                left, right = opening.span
                assert end <= left < right <= plan.length(wall)
                assert 0 <= opening.bottom < opening.top < plan.height
                end = right


def test_corridors_are_long_with_doors_on_both_sides():
    for building in BUILDINGS:
        plan = draw_plan("corridor", style_of(building).shell, np.random.default_rng(1))
        assert plan.depth > 3 * plan.width
        assert len(plan.on_wall(1, "door")) >= 2
        assert len(plan.on_wall(3, "door")) >= 2
