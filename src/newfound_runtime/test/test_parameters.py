# SPDX-License-Identifier: Apache-2.0
import math

import pytest
from rclpy.parameter import Parameter as RosParameter

from newfound_runtime.parameters import Parameter, declare, problems

MOMENTUM = Parameter("momentum", 0.1, "Weight of an update.", minimum=0.0, maximum=1.0, live=True)
FRAMES = Parameter("frames", 10, "Frames behind an update.", minimum=2)
DEVICE = Parameter("device", "cpu", "Where to compute.", choices=("cpu", "cuda"))
ODD = Parameter("odd", 1, "Odd.", live=True, check=lambda v: None if v % 2 else f"{v} is even")
ALL = {p.name: p for p in (MOMENTUM, FRAMES, DEVICE, ODD)}


def test_descriptors_carry_description_range_and_when_they_may_change():
    momentum, frames, device = (p.descriptor() for p in (MOMENTUM, FRAMES, DEVICE))
    assert momentum.description == "Weight of an update."
    assert momentum.floating_point_range[0].to_value == 1.0
    assert "run time" in momentum.additional_constraints
    assert frames.integer_range[0].from_value == 2
    assert frames.integer_range[0].to_value == 2**63 - 1
    assert "configured" in frames.additional_constraints
    assert "cpu, cuda" in device.additional_constraints


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("device", "tpu", "one of cpu, cuda"),
        ("momentum", math.nan, "finite"),
        ("momentum", math.inf, "finite"),
        ("odd", 4, "4 is even"),
    ],
)
def test_wrong_values_are_refused_with_the_reason(name, value, reason):
    found = problems(ALL, [RosParameter(name, value=value)], configured=False)
    assert len(found) == 1
    assert reason in found[0]
    assert name in found[0]


def test_a_parameter_read_at_configure_cannot_change_later_and_says_so():
    change = [RosParameter("frames", value=20)]
    assert problems(ALL, change, configured=False) == []
    assert "cannot change" in problems(ALL, change, configured=True)[0]


def test_a_live_parameter_may_change_while_configured():
    assert problems(ALL, [RosParameter("momentum", value=0.5)], configured=True) == []


def test_parameters_of_ros_itself_are_left_to_ros():
    assert problems(ALL, [RosParameter("use_sim_time", value=True)], configured=True) == []


def test_every_problem_is_told_at_once():
    changes = [RosParameter("device", value="tpu"), RosParameter("odd", value=2)]
    assert len(problems(ALL, changes, configured=False)) == 2


def test_declaring_one_name_twice_is_a_defect():
    class Node:
        def declare_parameter(self, *_):
            pass

    with pytest.raises(ValueError, match="twice"):
        declare(Node(), [FRAMES, FRAMES])
