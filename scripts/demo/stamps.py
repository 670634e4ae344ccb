# SPDX-License-Identifier: Apache-2.0
"""What an image, its truth, and what was made of it have in common."""

from typing import Any

Stamp = tuple[int, int]


def stamp(message: Any) -> Stamp:
    """Seconds and nanoseconds of a header."""
    return message.header.stamp.sec, message.header.stamp.nanosec
