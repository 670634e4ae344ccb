# SPDX-License-Identifier: Apache-2.0
"""The open-world detector: known, unknown, learned on the robot.

`node` is the ROS node, `services` and `learn_action` its interface, `session` everything it holds
besides ROS, `learning_queue` the jobs and their processes.
"""
