# SPDX-License-Identifier: Apache-2.0
"""A knowledge base on the robot: common to every node that learns classes.

`owner` holds the versions and changes them, `learning_queue` runs the jobs, `services` and
`learn_action` are the interface, `messages` what is published of it.
"""
