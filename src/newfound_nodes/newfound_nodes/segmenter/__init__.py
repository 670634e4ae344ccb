# SPDX-License-Identifier: Apache-2.0
"""The segmenter: a class for every pixel, and classes learned on the robot from masks."""
