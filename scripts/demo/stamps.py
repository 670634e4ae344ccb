# SPDX-License-Identifier: Apache-2.0
"""What an image, its truth, and what was made of it have in common."""

from typing import Any

Stamp = tuple[int, int]
SAME = 0.5  # overlap (IoU) of two boxes that are one object


def stamp(message: Any) -> Stamp:
    """Seconds and nanoseconds of a header."""
    return message.header.stamp.sec, message.header.stamp.nanosec


def overlap(one: Any, other: Any) -> float:
    """Intersection over union of two regions."""
    width = min(one.x_offset + one.width, other.x_offset + other.width) - max(
        one.x_offset, other.x_offset
    )
    height = min(one.y_offset + one.height, other.y_offset + other.height) - max(
        one.y_offset, other.y_offset
    )
    common = max(width, 0) * max(height, 0)
    return common / max(one.width * one.height + other.width * other.height - common, 1)
