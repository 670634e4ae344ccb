# SPDX-License-Identifier: Apache-2.0
"""The depth image that belongs to a colour image."""

import dataclasses
import math
import threading
import time
from collections import deque
from typing import Any

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from newfound_core.detection.proposals import CameraView
from newfound_runtime import images
from newfound_runtime.image_input import ImageInput
from newfound_runtime.images import Frame

_KEPT = 10  # depth images kept to choose from
_JUDGED, _MISSED = 30, 5  # frames, and how many of them without depth are a problem
_SILENCE = 3.0  # s without any depth image
_MAX_ASPECT_DIFFERENCE = 0.02  # of width / height: cameras round their sizes


class DepthInput(ImageInput):
    """Keeps the newest depth images of a topic and finds the one of a colour image."""

    def __init__(self, node: Node, topic: str, reliability: str, transport: str = "raw") -> None:
        super().__init__(node, topic, transport, reliability)
        self._recent: deque[Image | CompressedImage] = deque(maxlen=_KEPT)
        self._arrived = threading.Condition()
        self._found: deque[bool] = deque(maxlen=_JUDGED)  # of the last frames
        self._last_arrival = -math.inf
        self._mismatch = ""  # why depth does not fit the colour image

    def of(self, frame: Frame, tolerance: float, timeout: float) -> np.ndarray | None:
        """The depth in metres nearest to the stamp of a frame, at most `tolerance` seconds away.

        Depth often comes a little after colour: until it has reached the stamp it is waited for,
        `timeout` seconds at most, even if that of an earlier moment is near. None if there is
        none.
        """
        wanted, end = _nanoseconds(frame.header.stamp), time.monotonic() + timeout
        with self._arrived:
            while self.subscribed and not self._reached(wanted):
                if not self._arrived.wait(end - time.monotonic()):
                    break
            found = self._nearest(wanted, tolerance)
            self._found.append(found is not None)
        if found is None:
            return None
        depth = images.to_depth(found)
        self._mismatch = _mismatch(frame, depth, found)
        return depth

    def problems(self) -> list[str]:
        """What is wrong: with the topic, with its stamps, or with what it shows."""
        with self._arrived:
            frames, missed = len(self._found), self._found.count(False)
            silent = time.monotonic() - self._last_arrival > _SILENCE
        found = super().problems()
        if missed >= _MISSED:
            why = f"no depth on {self.topic}: " if silent else ""
            found.append(f"{why}{missed} of the last {frames} frames without depth")
        if self._mismatch:
            found.append(self._mismatch)
        return found

    def close(self) -> None:
        """Unsubscribe; frames from before tell nothing about those after."""
        super().close()
        with self._arrived:
            self._found.clear()
            self._mismatch = ""

    def _reached(self, wanted: int) -> bool:
        # By the last alone: before it there may be those of a recording that starts over.
        return bool(self._recent) and _nanoseconds(self._recent[-1].header.stamp) >= wanted

    def _nearest(self, wanted: int, tolerance: float) -> Image | CompressedImage | None:
        distances = [(abs(_nanoseconds(m.header.stamp) - wanted), m) for m in self._recent]
        if not distances:
            return None
        distance, message = min(distances, key=lambda pair: pair[0])
        return message if distance <= tolerance * 1e9 else None

    def _receive(self, message: Image | CompressedImage) -> None:
        self.counters.receive()
        with self._arrived:
            self._recent.append(message)
            self._last_arrival = time.monotonic()
            self._arrived.notify_all()


def calibrated(view: CameraView, message: CameraInfo) -> CameraView | None:
    """The view with the focal lengths and centre of a camera; None if it has none."""
    fx, _, cx, _, fy, cy = message.k[:6]
    if not (fx > 0 and fy > 0 and message.width and message.height):
        return None
    return dataclasses.replace(
        view,
        focal_x=fx / message.width,
        focal_y=fy / message.width,
        centre_x=(cx + 0.5) / message.width,
        centre_y=(cy + 0.5) / message.height,
    )


def _mismatch(frame: Frame, depth: np.ndarray, message: Image | CompressedImage) -> str:
    """Why this depth cannot be registered to the colour image; empty if it can be."""
    height, width = frame.rgb.shape[:2]
    aspect, depth_aspect = width / height, depth.shape[1] / depth.shape[0]
    if abs(depth_aspect / aspect - 1) > _MAX_ASPECT_DIFFERENCE:
        return (
            f"depth of {depth.shape[1]}x{depth.shape[0]} has another aspect ratio than colour of "
            f"{width}x{height}: it is not registered to the colour image"
        )
    colour_frame, depth_frame = frame.header.frame_id, message.header.frame_id
    if colour_frame and depth_frame and colour_frame != depth_frame:
        return (
            f"depth is in the frame {depth_frame!r}, colour in {colour_frame!r}: use depth that "
            "is registered to the colour image"
        )
    return ""


def _nanoseconds(stamp: Any) -> int:
    return stamp.sec * 10**9 + stamp.nanosec
