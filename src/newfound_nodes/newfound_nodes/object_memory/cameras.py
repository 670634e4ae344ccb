# SPDX-License-Identifier: Apache-2.0
"""What the object memory hears of one camera: its detector, its depth, its images."""

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from newfound_core.detection.camera_rays import Calibration
from newfound_core.errors import ConfigError
from newfound_msgs import msg
from newfound_nodes.open_world.positions import calibration
from newfound_runtime import images
from newfound_runtime.images import ImageError
from newfound_runtime.managed_node import ManagedNode

_KEPT = 15  # images of a camera that detections may still come for
_SAME_STAMP = 0.02  # s


class Camera:
    """The topics of one camera."""

    def __init__(
        self, node: ManagedNode, namespace: str, on_detections: Callable[["Camera", Any], None]
    ) -> None:
        self._node, self._base = node, f"{namespace}/" if namespace else ""
        self._subscriptions: list[Any] = []
        self._group = MutuallyExclusiveCallbackGroup()
        self._depth: deque[Image | CompressedImage] = deque(maxlen=_KEPT)
        self._images: deque[Image | CompressedImage] = deque(maxlen=_KEPT)
        self._info: CameraInfo | None = None
        self.subscribe(
            msg.OpenWorldDetections, node.param("detector"), "detections", on_detections
        )
        self._take("depth_topic", node.param("depth_transport"), self._keep_depth)
        self._take("image_topic", node.param("image_transport"), self._keep_image)
        self._take("camera_info_topic", "raw", self._calibrate, CameraInfo)

    def _take(
        self, name: str, transport: str, callback: Callable[[Any], None], raw: type = Image
    ) -> None:
        """Listen to the topic that a parameter names, if it names one."""
        topic = self._node.param(name)
        if not topic:
            return
        topic = topic if topic.startswith("/") else f"{self._base}{topic}"
        if transport != "raw":
            topic, raw = f"{topic}/{transport}", CompressedImage
        self._add(raw, topic, callback, qos_profile_sensor_data)

    def subscribe(
        self, kind: type, node: str, topic: str, callback: Callable[["Camera", Any], None]
    ) -> None:
        """Listen to a topic of the detector."""
        self._add(kind, f"{self._base}{node}/{topic}", lambda m: callback(self, m), 50)

    def _add(self, kind: type, topic: str, callback: Callable[[Any], None], profile: Any) -> None:
        made = self._node.create_subscription(
            kind, topic, callback, profile, callback_group=self._group
        )
        self._subscriptions.append(made)

    def close(self) -> None:
        """Unsubscribe."""
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._subscriptions = []

    def _keep_depth(self, message: Image | CompressedImage) -> None:
        self._depth.append(message)

    def _keep_image(self, message: Image | CompressedImage) -> None:
        self._images.append(message)

    def _calibrate(self, message: CameraInfo) -> None:
        self._info = message

    def calibration(self) -> Calibration | None:
        """Of the depth camera; None if it is not known."""
        try:
            return calibration(self._info) if self._info is not None else None
        except ConfigError:
            return None

    def depth_at(self, stamp: Any) -> np.ndarray | None:
        """Depth of a moment, in metres."""
        return _at(self._depth, stamp, images.to_depth)

    def image_at(self, stamp: Any) -> np.ndarray | None:
        """Colour of a moment."""
        return _at(self._images, stamp, _rgb)


def _rgb(message: Image | CompressedImage) -> np.ndarray:
    decode = images.decode if isinstance(message, CompressedImage) else images.to_rgb
    return decode(message)


def _at(
    kept: deque[Image | CompressedImage], stamp: Any, decode: Callable[[Any], np.ndarray]
) -> np.ndarray | None:
    wanted = nanoseconds(stamp)
    for message in reversed(kept):
        if abs(nanoseconds(message.header.stamp) - wanted) <= _SAME_STAMP * 1e9:
            try:
                return decode(message)
            except ImageError:
                return None
    return None


def nanoseconds(stamp: Any) -> int:
    """Of a builtin_interfaces/Time."""
    return stamp.sec * 10**9 + stamp.nanosec
