# SPDX-License-Identifier: Apache-2.0
"""The image topic of a node: subscribed only while needed, with the QoS its publisher offers."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node
from sensor_msgs.msg import CompressedImage, Image

from newfound_runtime import images, qos
from newfound_runtime.images import Frame
from newfound_runtime.rclpy_compat import Receiver
from newfound_runtime.stream import Mailbox, StreamCounters


@dataclass(frozen=True)
class Letter:
    """An image message and when it came."""

    message: Image | CompressedImage
    received: float  # s, time.monotonic()


class Pace:
    """Takes so many images a second of those that come, spread as evenly as they come."""

    SLACK = 0.1  # of the time between two: a camera of just this rate is never quite regular

    def __init__(self) -> None:
        self._due = 0.0

    def takes(self, now: float, rate: float) -> bool:
        """Whether to take the image that comes now; with a rate of 0, each."""
        if rate <= 0:
            return True
        period, early = 1 / rate, self._due - now
        # What is due even later was so at another rate.
        if self.SLACK * period < early <= (1 + self.SLACK) * period:
            return False
        self._due = (self._due if abs(early) < period else now) + period
        return True


class ImageInput:
    """Keeps the newest image of a topic for a worker that is slower than the camera.

    `max_rate` gives how many images per second are taken at most; 0: all.
    """

    def __init__(
        self,
        node: Node,
        topic: str,
        transport: str,
        reliability: str,
        max_rate: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.mailbox: Mailbox[Letter] = Mailbox()
        self.counters = StreamCounters()
        self._node = node
        self._type: type = CompressedImage if transport == "compressed" else Image
        # As image_transport does it: a remapping of the base topic moves its siblings along.
        base = node.resolve_topic_name(topic)
        self.topic = f"{base}/compressed" if transport == "compressed" else base
        self._reliability = reliability
        self._max_rate, self._pace = max_rate, Pace()
        self._receiver: Receiver | None = None
        self._profile: Any = None
        self._lock = threading.Lock()  # who listens is noticed in one thread, life in another
        self._open = True

    @property
    def subscribed(self) -> bool:
        """Whether frames are asked for at present."""
        return self._receiver is not None

    def open(self) -> None:
        """Let `refresh` subscribe again after a `close`."""
        with self._lock:
            self._open = True

    def refresh(self, wanted: bool) -> None:
        """Subscribe, unsubscribe, or subscribe anew because publishers offer something else."""
        with self._lock:
            if not self._open:
                return
            profile = None
            if wanted:
                publishers = self._node.get_publishers_info_by_topic(self.topic)
                if not publishers and self.subscribed:
                    return  # the camera is away: keep listening as it was
                profile = qos.matching(publishers, self._reliability)
            if profile != self._profile:
                self._subscribe(profile)

    def _subscribe(self, profile: Any) -> None:
        """Let go of the subscription that is, and make one with this profile, unless None."""
        if self._receiver is not None:
            self._receiver.close()
        self._receiver = self._profile = None
        if self.mailbox.clear():
            self.counters.drop()
        if profile is not None:
            self._receiver = Receiver(self._node, self._type, self.topic, self._receive, profile)
            self._profile = profile

    def close(self) -> None:
        """Unsubscribe and forget the frame that waits; nothing comes in until `open`."""
        with self._lock:
            self._open = False
            self._subscribe(None)

    def reliability(self) -> str:
        """What the present subscription asks for, for diagnostics."""
        profile = self._profile
        return "not subscribed" if profile is None else profile.reliability.name.lower()

    def _receive(self, message: Image | CompressedImage) -> None:
        now = time.monotonic()
        self.counters.receive()
        if not self._pace.takes(now, self._max_rate()) or self.mailbox.put(Letter(message, now)):
            self.counters.drop()


def open_letter(letter: Letter) -> Frame:
    """Decode the pixels; raises ImageError when the message lies about itself."""
    message = letter.message
    decode = images.decode if isinstance(message, CompressedImage) else images.to_rgb
    return Frame(message.header, decode(message), letter.received)
