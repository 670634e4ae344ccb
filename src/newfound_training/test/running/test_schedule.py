# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_training.running.schedule import learning_rate_factor


def factors(schedule, steps, **options):
    return [learning_rate_factor(schedule, step, steps, **options) for step in range(steps)]


def test_step_divides_by_ten_at_ninety_percent():
    assert factors("step", 10) == [1.0] * 9 + [0.1]


def test_cosine_falls_from_one_along_half_a_wave():
    values = factors("cosine", 100)
    assert values[0] == 1
    assert values[50] == pytest.approx(0.5)
    assert values[-1] < 0.001
    assert sorted(values, reverse=True) == values


def test_warmup_rises_linearly():
    assert factors("constant", 6, warmup=3) == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])
