# SPDX-License-Identifier: Apache-2.0
"""Nodes for tests and benchmarks: real nodes with a model that is a sleep, or a fault."""

import os
import time
from typing import ClassVar

from std_msgs.msg import Header

from newfound_nodes import Frame, Parameter, PerceptionNode
from newfound_nodes.runtime import run


class Echo(PerceptionNode):
    """Answers each frame with its header, after as long as a model would take."""

    NAME = "echo"
    PARAMETERS = (
        Parameter("seconds", 0.0, "How long a frame takes.", minimum=0.0, maximum=10.0, live=True),
        Parameter(
            "busy", False, "Compute instead of sleeping, holding the interpreter.", live=True
        ),
        Parameter("always", False, "Process frames even if nobody listens."),
        Parameter("mood", "calm", "To try choices.", choices=("calm", "wild"), live=True),
        Parameter("load_seconds", 0.0, "How long the model takes to load."),
        Parameter(
            "fail_in", "", "Where to raise: load, process, check, diagnose, unload.", live=True
        ),
    )
    OUTPUTS: ClassVar = {"echo": (Header, 10)}

    def load(self) -> None:
        self.fail("load")
        time.sleep(self.param("load_seconds"))
        self.shapes: list[tuple[int, ...]] = []

    def process(self, frame: Frame) -> None:
        self.fail("process")
        end = time.monotonic() + self.param("seconds")
        while self.param("busy") and time.monotonic() < end:
            sum(range(1000))
        time.sleep(max(0.0, end - time.monotonic()))
        self.shapes = [*self.shapes[-9:], frame.rgb.shape]
        self.publish("echo", frame.header)

    def unload(self) -> None:
        self.fail("unload")

    def check_parameters(self, values) -> str | None:
        if values.get("mood") == "wild":
            self.fail("check")
            if values.get("seconds", self.param("seconds")) > 1:
                return "a wild mood goes with at most one second"
        return None

    def needs_every_frame(self) -> bool:
        return self.param("always")

    def diagnose(self):
        self.fail("diagnose")
        return {"device": "cpu", "pid": os.getpid()}

    def fail(self, where: str) -> None:
        if self.param("fail_in") == where:
            raise RuntimeError(f"asked to fail in {where}")


if __name__ == "__main__":
    raise SystemExit(run(Echo))
