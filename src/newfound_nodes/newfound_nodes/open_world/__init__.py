# SPDX-License-Identifier: Apache-2.0
"""The open-world detector: known, unknown, learned on the robot.

`node` is the ROS node, `services` its interface, `session` everything it holds besides ROS.
"""
