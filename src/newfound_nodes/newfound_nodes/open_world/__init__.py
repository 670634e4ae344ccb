# SPDX-License-Identifier: Apache-2.0
"""The open-world detector: says "unknown", learns on the robot, loses nothing."""
