# SPDX-License-Identifier: Apache-2.0
"""What every test can rely on: ROS that stays on this machine and in this run."""

import os
import signal
from pathlib import Path

import pytest

# Before anything imports rclpy or torch. The networks of the tests are tiny: two threads would
# mostly wait for each other, above all on a busy machine.
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Processes that tests start must hear Ctrl-C, also if this one runs in the background of a shell,
# which lets it ignore that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = Path(__file__).with_name("tests") / "slow_tests.txt"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what was measured to be so; `make quick` leaves it out."""
    slow = set(SLOW.read_text().split("\n"))
    for item in items:
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker("slow")
