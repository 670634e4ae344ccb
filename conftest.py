# SPDX-License-Identifier: Apache-2.0
"""What every test can rely on: ROS that stays on this machine and in this run."""

import os
import random

# Before anything imports rclpy. Domains 1 to 101 are safe with the default port range.
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ.setdefault("NEWFOUND_TEST_DOMAIN", str(random.randrange(1, 102)))
os.environ["ROS_DOMAIN_ID"] = os.environ["NEWFOUND_TEST_DOMAIN"]

import pytest


@pytest.fixture
def ros():
    """A real ROS client to test a node with; see tests/harness.py."""
    from tests.harness import Harness

    harness = Harness()
    yield harness
    harness.close()
