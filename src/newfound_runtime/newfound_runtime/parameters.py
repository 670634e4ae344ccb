# SPDX-License-Identifier: Apache-2.0
"""Declaration of node parameters: default, meaning, range, and when they may change."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.parameter import Parameter as RosParameter


@dataclass(frozen=True)
class Parameter:
    """One parameter of a node: its default, its meaning, and what values make sense.

    A `live` parameter may change at any time and takes effect with the next frame. The
    others are read when the node is configured; setting them later is refused.
    """

    name: str
    default: bool | int | float | str | list[str] | list[float]
    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: Sequence[str] = ()
    live: bool = False
    check: Callable[[Any], str | None] | None = None  # returns what is wrong, or None

    def descriptor(self) -> ParameterDescriptor:
        """What `ros2 param describe` shows."""
        descriptor = ParameterDescriptor(description=self.description)
        when = "can change at run time" if self.live else "read when the node is configured"
        descriptor.additional_constraints = when
        if self.choices:
            descriptor.additional_constraints += "; one of: " + ", ".join(self.choices)
        if self.minimum is None and self.maximum is None:
            return descriptor
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        if isinstance(self.default, int):
            limit = 2**63 - 1
            descriptor.integer_range = [
                IntegerRange(from_value=int(max(low, -limit)), to_value=int(min(high, limit)))
            ]
        else:
            descriptor.floating_point_range = [FloatingPointRange(from_value=low, to_value=high)]
        return descriptor

    def problem(self, value: Any) -> str | None:
        """Why this value cannot be, or None. Types and ranges are checked by ROS itself."""
        if isinstance(value, float) and not math.isfinite(value):
            return f"{self.name} must be a finite number, got {value}"
        if self.choices and value not in self.choices:
            return f"{self.name} must be one of {', '.join(self.choices)}; got '{value}'"
        problem = self.check(value) if self.check else None
        return f"{self.name}: {problem}" if problem else None


def declare(node: Any, parameters: Sequence[Parameter]) -> dict[str, Parameter]:
    """Declare them on a node; a wrong value in a parameter file is refused with the reason."""
    declared: dict[str, Parameter] = {}
    for parameter in parameters:
        if parameter.name in declared:
            raise ValueError(f"parameter {parameter.name} is declared twice")
        node.declare_parameter(parameter.name, parameter.default, parameter.descriptor())
        declared[parameter.name] = parameter
    return declared


def problems(
    declared: dict[str, Parameter], changes: Sequence[RosParameter], configured: bool
) -> list[str]:
    """Everything that speaks against these changes; empty when they may be made."""
    found = []
    for change in changes:
        parameter = declared.get(change.name)
        if parameter is None:  # one of ROS's own, such as use_sim_time
            continue
        if configured and not parameter.live:
            found.append(
                f"{change.name} is read when the node is configured and cannot change while it "
                "is; clean the node up, set it, and configure the node again"
            )
        elif problem := parameter.problem(change.value):
            found.append(problem)
    return found
