# SPDX-License-Identifier: Apache-2.0
"""What a camera sees, as pictures and as data: boxes are drawn by the browser.

Detections take a while: images wait for them, and the one nearest to them in time is sent. Images
are scaled down, and taken at a limited rate: what comes in between is not even received.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from rclpy.qos import HistoryPolicy
from sensor_msgs.msg import CompressedImage, Image

from newfound_console.bridge import Bridge, Subscriptions, Wanted
from newfound_console.directory import Camera
from newfound_msgs import msg
from newfound_runtime import images
from newfound_runtime.image_input import matching_qos
from newfound_runtime.images import ImageError
from newfound_runtime.rclpy_compat import Receiver

PATIENCE = 3.0  # s without detections after which images are sent without them
WAITING = 8  # images that wait for detections
JPEG_QUALITY = 75
SAME_MOMENT = 150_000_000  # ns between an image and the detections that views are cut out by
MAX_BOXES = 200


Taken = tuple[int, bytes, np.ndarray]  # stamp in ns, small JPEG, original uint8 [H, W, 3]


class ImageSource:
    """Takes the newest image of a topic now and then, and hands it over as a small JPEG."""

    def __init__(self, bridge: Bridge, camera: Camera, rate: float, side: int) -> None:
        self.topic, self.transport = camera.topic, camera.transport
        self._bridge, self._side = bridge, side
        kind: type = CompressedImage if camera.transport == "compressed" else Image
        topic = f"{camera.topic}/compressed" if kind is CompressedImage else camera.topic
        self._receive: Callable[[int, bytes, np.ndarray], None] = lambda *_: None
        publishers = bridge.node.get_publishers_info_by_topic(topic)
        profile = matching_qos(publishers)
        profile.history, profile.depth = HistoryPolicy.KEEP_LAST, 1
        self.profile, self.connected = profile, bool(publishers)
        self.error = ""
        self._receiver = Receiver(
            bridge.node,
            kind,
            topic,
            self._take,
            profile,
            period=1 / rate,
            on_error=lambda error: None,
            on_incompatible=lambda policy: None,
        )

    def listen(self, receive: Callable[[int, bytes, np.ndarray], None]) -> None:
        """Hand images over: stamp in ns, JPEG, and the original uint8 [H, W, 3]."""
        self._receive = receive

    def close(self) -> None:
        """Unsubscribe, without waiting for an image that is being encoded."""
        self._bridge.loop.run_in_executor(None, self._receiver.close)

    def _take(self, message: Any) -> None:
        """In the receiver's thread."""
        decode = images.decode if isinstance(message, CompressedImage) else images.to_rgb
        try:
            rgb = decode(message)
        except ImageError as error:
            self.error = str(error)
            return
        self.error = ""
        stamp = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
        jpeg = small_jpeg(rgb, self._side)
        self._bridge.hand_over(self._receive, stamp, jpeg, rgb)


def small_jpeg(rgb: np.ndarray, side: int, quality: int = JPEG_QUALITY) -> bytes:
    """An image with sides of at most so many pixels, as JPEG."""
    scale = side / max(rgb.shape[:2])
    if scale < 1:
        size = (max(1, round(rgb.shape[1] * scale)), max(1, round(rgb.shape[0] * scale)))
        rgb = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
    bgr = cv2.cvtColor(np.ascontiguousarray(rgb), cv2.COLOR_RGB2BGR)
    return cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()


class LiveFeed:
    """Pairs images with detections, and adds place and classification."""

    def __init__(
        self,
        bridge: Bridge,
        camera: Callable[[], Camera | None],
        source: Callable[[Camera], ImageSource],
        publish: Callable[[dict[str, Any], bytes], None],
    ) -> None:
        self._bridge, self._camera, self._source = bridge, camera, source
        self._publish = publish
        self._subscriptions = Subscriptions(bridge)
        self._images: ImageSource | None = None
        self._waiting: deque[Taken] = deque(maxlen=WAITING)  # oldest first
        self._times: deque[float] = deque(maxlen=30)  # of detections, for their rate
        self._place: dict[str, Any] | None = None
        self._classified: dict[str, Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self.on_image: Callable[..., None] = lambda *_: None  # an image, uint8 [H, W, 3]
        self.on_pair: Callable[..., None] = lambda *_: None  # an image and its detections

    def start(self) -> None:
        """Subscribe."""
        self._task = self._bridge.loop.create_task(self._follow())

    def stop(self) -> None:
        """Unsubscribe."""
        if self._task is not None:
            self._task.cancel()
        if self._images is not None:
            self._images.close()
        self._images = None
        self._subscriptions.close()

    async def _follow(self) -> None:
        """Subscribe as cameras and nodes come and go, and send images that nobody answers."""
        while True:
            self.refresh()
            await asyncio.sleep(0.5)

    def refresh(self) -> None:
        """Follow what the graph offers now."""
        camera = self._camera()
        if camera is None:
            return
        wanted: dict[str, Wanted] = {}
        if camera.detector:
            topic = f"{camera.detector}/detections"
            wanted[topic] = (msg.OpenWorldDetections, topic, self._on_detections, 5)
        for name in camera.places[:1]:
            topic = f"{name}/place"
            wanted[topic] = (msg.PlaceCategory, topic, self._on_place, 2)
        for name in camera.classifiers[:1]:
            topic = f"{name}/classification"
            wanted[topic] = (msg.Classification, topic, self._on_class, 2)
        self._subscriptions.want(wanted)
        shown = self._images
        same = shown is not None and (shown.topic, shown.transport) == (
            camera.topic,
            camera.transport,
        )
        if shown is not None and not (same and shown.connected):
            shown.close()
            self._images = shown = None
        if shown is None and camera.topic:
            self._images = self._source(camera)
            self._images.listen(self._on_image)

    def _on_image(self, stamp: int, jpeg: bytes, rgb: np.ndarray) -> None:
        self.on_image(rgb)
        self._waiting.append((stamp, jpeg, rgb))
        if not self._answered():
            self._send(self._waiting[-1], None)
            self._waiting.clear()

    def _on_detections(self, message: msg.OpenWorldDetections) -> None:
        self._times.append(time.monotonic())
        if not self._waiting:
            return
        when = _stamp(message)
        best = min(self._waiting, key=lambda taken: abs(taken[0] - when))
        while self._waiting and self._waiting[0][0] <= best[0]:
            self._waiting.popleft()
        self._send(best, message)

    def _answered(self) -> bool:
        """Whether detections come."""
        return bool(self._times) and time.monotonic() - self._times[-1] < PATIENCE

    def _on_place(self, message: msg.PlaceCategory) -> None:
        self._place = {"label": message.label, "nearest": message.nearest_label,
                       "confidence": number(message.confidence)}  # fmt: skip

    def _on_class(self, message: msg.Classification) -> None:
        self._classified = {"label": message.label, "nearest": message.nearest_label,
                            "confidence": number(message.confidence)}  # fmt: skip

    def _send(self, taken: Taken, found: msg.OpenWorldDetections | None) -> None:
        stamp, jpeg, rgb = taken
        height, width = rgb.shape[:2]
        boxes = [box_of(each) for each in found.detections[:MAX_BOXES]] if found else []
        data = {
            "width": width,
            "height": height,
            "boxes": boxes,
            "answered": found is not None,
            "rate": self.rate() if found else 0,
            "place": self._place,
            "classified": self._classified,
        }
        self._publish(data, jpeg)
        if found is not None and abs(_stamp(found) - stamp) <= SAME_MOMENT:
            self.on_pair(rgb, found)

    def rate(self) -> float:
        """Detections per second."""
        if len(self._times) < 2:
            return 0.0
        return round((len(self._times) - 1) / max(1e-3, self._times[-1] - self._times[0]), 1)


def _stamp(message: Any) -> int:
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def number(value: float) -> float | None:
    """A number for JSON, which knows neither infinity nor NaN."""
    return round(float(value), 4) if math.isfinite(value) else None


def box_of(found: msg.OpenWorldDetection) -> dict[str, Any]:
    """A detection as the page draws it."""
    region, at = found.region, found.pose.position
    box: dict[str, Any] = {
        "x": region.x_offset,
        "y": region.y_offset,
        "w": region.width,
        "h": region.height,
        "known": found.kind == msg.OpenWorldDetection.KIND_KNOWN,
        "label": found.label,
        "score": number(found.score),
        "nearest": found.nearest_label,
        "track": found.track_id,
        "unknown": found.unknown_id,
    }
    if found.has_position:
        box["distance"] = number(math.hypot(at.x, at.y, at.z))
        box["position"] = [number(at.x), number(at.y), number(at.z)]
        box["error"] = number(found.position_error)
    return box
