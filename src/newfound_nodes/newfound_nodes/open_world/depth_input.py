# SPDX-License-Identifier: Apache-2.0
"""The depth image that belongs to a colour image."""

import math
import threading
import time
from collections import deque
from typing import Any

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import Image

from newfound_runtime import images
from newfound_runtime.image_input import ImageInput

_RECENT = 10  # depth images kept to choose from
_JUDGED, _MISSED = 30, 5  # frames, and how many of them without depth are a problem
_SILENCE = 3.0  # s without any depth image


class DepthInput(ImageInput):
    """Keeps the newest depth images of a topic and finds the one of a moment."""

    def __init__(self, node: Node, topic: str, reliability: str) -> None:
        super().__init__(node, topic, "raw", reliability)
        self._recent: deque[Image] = deque(maxlen=_RECENT)
        self._arrived = threading.Condition()
        self._found: deque[bool] = deque(maxlen=_JUDGED)  # of the last frames
        self._last_arrival = -math.inf

    def at(self, stamp: Any, tolerance: float, patience: float) -> np.ndarray | None:
        """The depth in metres nearest to a stamp, at most `tolerance` seconds away.

        Depth often comes a little after colour: until it has reached the stamp it is waited for,
        `patience` seconds at most, even if that of an earlier moment is near. None if there is
        none.
        """
        wanted, end = _nanoseconds(stamp), time.monotonic() + patience
        with self._arrived:
            while self.subscribed and not self._reached(wanted):
                if not self._arrived.wait(end - time.monotonic()):
                    break
            found = self._nearest(wanted, tolerance)
            self._found.append(found is not None)
        return None if found is None else images.to_depth(found)

    def problem(self) -> str:
        """What is wrong if many frames were without depth; empty if nothing is."""
        with self._arrived:
            frames, missed = len(self._found), self._found.count(False)
            silent = time.monotonic() - self._last_arrival > _SILENCE
        if missed < _MISSED:
            return ""
        why = f"no depth on {self.topic}: " if silent else ""
        return f"{why}{missed} of the last {frames} frames without depth"

    def close(self) -> None:
        """Unsubscribe; frames from before tell nothing about those after."""
        super().close()
        with self._arrived:
            self._found.clear()

    def _reached(self, wanted: int) -> bool:
        # By the last alone: before it there may be those of a recording that begins again.
        return bool(self._recent) and _nanoseconds(self._recent[-1].header.stamp) >= wanted

    def _nearest(self, wanted: int, tolerance: float) -> Image | None:
        distances = [(abs(_nanoseconds(m.header.stamp) - wanted), m) for m in self._recent]
        if not distances:
            return None
        distance, message = min(distances, key=lambda pair: pair[0])
        return message if distance <= tolerance * 1e9 else None

    def _receive(self, message: Image) -> None:
        self.counters.receive()
        with self._arrived:
            self._recent.append(message)
            self._last_arrival = time.monotonic()
            self._arrived.notify_all()


def _nanoseconds(stamp: Any) -> int:
    return stamp.sec * 10**9 + stamp.nanosec
