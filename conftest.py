# SPDX-License-Identifier: Apache-2.0
"""What every test can rely on: ROS that stays on this machine and in this run."""

import os

# Before anything imports rclpy or torch. The networks of the tests are tiny: two threads would
# mostly wait for each other, above all on a busy machine.
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ.setdefault("OMP_NUM_THREADS", "1")
