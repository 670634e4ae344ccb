# SPDX-License-Identifier: Apache-2.0
"""The image topic of a node: subscribed only while needed, with the QoS its publisher offers."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.topic_endpoint_info import TopicEndpointInfo
from sensor_msgs.msg import CompressedImage, Image

from newfound_runtime import images
from newfound_runtime.images import Frame
from newfound_runtime.rclpy_compat import Receiver
from newfound_runtime.stream import Mailbox, StreamCounters

DEPTH = 5  # frames kept by DDS while the process is busy; the mailbox keeps the newest
WARN_EVERY = 5.0  # s between two warnings of the same kind


def matching_qos(publishers: Sequence[TopicEndpointInfo], reliability: str = "auto") -> QoSProfile:
    """The strictest profile that every publisher of the topic can satisfy.

    Asking for more than is offered connects nothing; asking for less loses frames that a reliable
    camera would have sent again. With no publisher yet, ask for the least. A `reliability` of
    "reliable" or "best_effort" is taken as it is.
    """
    offered = [publisher.qos_profile for publisher in publishers]
    reliable = bool(offered) and all(
        profile.reliability == ReliabilityPolicy.RELIABLE for profile in offered
    )
    if reliability != "auto":
        reliable = reliability == "reliable"
    latched = bool(offered) and all(
        profile.durability == DurabilityPolicy.TRANSIENT_LOCAL for profile in offered
    )
    return QoSProfile(
        depth=DEPTH,
        history=HistoryPolicy.KEEP_LAST,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=(DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE),
    )


@dataclass(frozen=True)
class StampedMessage:
    """An image message and when it arrived."""

    message: Image | CompressedImage
    received: float  # s, time.monotonic()

    def decode(self) -> Frame:
        """Decode the pixels; raises ImageError if the message contradicts itself."""
        message = self.message
        decode = images.decode if isinstance(message, CompressedImage) else images.to_rgb
        return Frame(message.header, decode(message), self.received)


class RateLimiter:
    """Passes at most a given number of messages per second, as evenly as they come."""

    SLACK = 0.1  # of the period: a camera of just this rate is never quite regular

    def __init__(self) -> None:
        self._due = 0.0

    def passes(self, now: float, rate: float) -> bool:
        """Whether to pass the message that comes now; a rate of 0 passes each."""
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
        self.mailbox: Mailbox[StampedMessage] = Mailbox()
        self.counters = StreamCounters()
        self._node = node
        self._type: type = Image if transport == "raw" else CompressedImage
        # As image_transport does it: a remapping of the base topic moves its siblings along.
        base = node.resolve_topic_name(topic)
        self.topic = base if transport == "raw" else f"{base}/{transport}"
        self._reliability = reliability
        self._max_rate, self._rate_limiter = max_rate, RateLimiter()
        self._receiver: Receiver | None = None
        self._profile: QoSProfile | None = None
        self._publishers: list[str] = []
        self._incompatible = ""  # the QoS policy that keeps a publisher from being heard
        self._last_warning = -WARN_EVERY
        self._lock = threading.Lock()  # subscribers are noticed in one thread, life in another
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
                self._notice_publishers(publishers)
                if not publishers and self.subscribed:
                    return  # the camera is away: keep the subscription as it is
                profile = matching_qos(publishers, self._reliability)
            if profile != self._profile:
                self._subscribe(profile)

    def close(self) -> None:
        """Unsubscribe and drop the frame that waits; nothing comes in until `open`."""
        with self._lock:
            self._open = False
            self._subscribe(None)

    def reliability(self) -> str:
        """What the present subscription asks for, for diagnostics."""
        profile = self._profile
        return "not subscribed" if profile is None else profile.reliability.name.lower()

    def problems(self) -> list[str]:
        """What is wrong with the topic, a sentence each, for diagnostics."""
        found = []
        if self._incompatible:
            found.append(
                f"a publisher of {self.topic} offers incompatible QoS ({self._incompatible}): "
                "nothing is received from it; see image_reliability"
            )
        if len(self._publishers) > 1:
            found.append(
                f"{len(self._publishers)} publishers on {self.topic}, whose frames are mixed: "
                f"{', '.join(self._publishers)}"
            )
        return found

    def _notice_publishers(self, publishers: Sequence[TopicEndpointInfo]) -> None:
        names = sorted(f"{p.node_namespace.rstrip('/')}/{p.node_name}" for p in publishers)
        if names == self._publishers:
            return
        self._publishers = names
        if len(names) > 1:
            self._node.get_logger().warning(self.problems()[-1])

    def _subscribe(self, profile: QoSProfile | None) -> None:
        """Drop the present subscription, and make one with this profile, unless None."""
        if self._receiver is not None:
            self._receiver.close()
        self._receiver = self._profile = None
        self._incompatible = ""
        if self.mailbox.clear():
            self.counters.drop()
        if profile is not None:
            self._receiver = Receiver(
                self._node,
                self._type,
                self.topic,
                self._receive,
                profile,
                on_error=self._receiver_failed,
                on_incompatible=self._qos_incompatible,
            )
            self._profile = profile

    def _receive(self, message: Any) -> None:
        now = time.monotonic()
        self.counters.receive()
        passes = self._rate_limiter.passes(now, self._max_rate())
        if not passes or self.mailbox.put(StampedMessage(message, now)):
            self.counters.drop()

    def _receiver_failed(self, error: Exception) -> None:
        self.counters.fail()
        if time.monotonic() - self._last_warning >= WARN_EVERY:
            self._last_warning = time.monotonic()
            self._node.get_logger().error(
                f"a message of {self.topic} could not be taken: {type(error).__name__}: {error}"
            )

    def _qos_incompatible(self, policy: str) -> None:
        self._incompatible = policy
        self._node.get_logger().warning(self.problems()[0])
