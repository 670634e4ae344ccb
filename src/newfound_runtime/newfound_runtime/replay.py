# SPDX-License-Identifier: Apache-2.0
"""Nodes in this process that are fed a recording in lock step, over real DDS.

A frame is published, with its depth first; the next one follows when every node is done with it
and what the nodes published has arrived. No frame is dropped, and a machine that is faster than
the camera is not held up by it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from newfound_core.errors import ConfigError, NewfoundError
from newfound_runtime.bag_writer import type_name
from newfound_runtime.container import ContainerError, make_node, node_class, spin
from newfound_runtime.images import depth_message, rgb_message
from newfound_runtime.managed_node import Output
from newfound_runtime.perception_node import DEBUG_OUTPUTS, PerceptionNode

IMAGE, DEPTH = "/recording/image_raw", "/recording/depth"
DEFAULT_NODES = ("adaptive_classifier", "open_world_detector")
FRAME_TIMEOUT = 300.0  # s for one frame
MESSAGE_TIMEOUT = 10.0  # s for a message from one end of this process to the other
_POLL = 0.0005  # s
_QUEUE = 1000  # messages
# What a replay sets, in nodes that have it: its topics, every frame, and no state of a robot.
_OVERRIDES = {
    "autostart": False,
    "image_topic": IMAGE,
    "image_transport": "raw",
    "image_reliability": "reliable",
    "max_rate": 0.0,
    "depth_topic": DEPTH,
    "knowledge_base": "",
    "state_dir": "",
    "persist_adaptation": False,
}


class ReplayError(NewfoundError):
    """A replay that cannot go on: which node does not answer, and why."""


@dataclass(frozen=True)
class Received:
    """A message of a node, serialised."""

    node: str
    output: str
    topic: str
    type: str  # as newfound_msgs/msg/Classification
    data: bytes


def listed_nodes(parameters: Path | None) -> Sequence[str]:
    """What the container of a parameter file lists; the default without such a list."""
    try:
        content = yaml.safe_load(parameters.read_text()) if parameters else {}
        container = (content or {}).get("/container") or (content or {}).get("container") or {}
        return list(container.get("ros__parameters", {}).get("nodes", DEFAULT_NODES))
    except (OSError, yaml.YAMLError, AttributeError, TypeError) as error:
        raise ConfigError(f"{parameters} is not a parameter file: {error}") from error


def perception_nodes(entries: Sequence[str]) -> tuple[str, ...]:
    """Those of the nodes that process images; a ConfigError if there is none."""
    try:
        kinds = {entry: node_class(entry.partition(":")[0]) for entry in entries}
    except (ContainerError, ImportError) as error:
        raise ConfigError(str(error)) from error
    kept = tuple(entry for entry, kind in kinds.items() if issubclass(kind, PerceptionNode))
    if not kept:
        raise ConfigError(f"no node processes images: {', '.join(entries) or 'none is listed'}")
    return kept


class Replay:
    """Running nodes, a camera that feeds them, and a subscriber to all that they publish.

    To be used between `rclpy.init` and `rclpy.shutdown`; with `debug_images` also the annotated
    images are received.
    """

    def __init__(
        self, entries: Sequence[str], *, has_depth: bool, debug_images: bool = False
    ) -> None:
        self._debug_images = debug_images
        self._received: list[Received] = []
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._subscriptions: list[Any] = []
        self.lost: Counter[str] = Counter()  # messages that were published and did not arrive
        self._camera = Node("recording")
        self._image = self._camera.create_publisher(Image, IMAGE, 5)
        self._depth = self._camera.create_publisher(Image, DEPTH, 5) if has_depth else None
        self.nodes = {entry: self._make(entry, has_depth) for entry in entries}
        self._executors = [
            MultiThreadedExecutor(2 * len(entries) + 2),
            SingleThreadedExecutor(),  # of the subscriber, which no model holds up
        ]
        self._executors[1].add_node(self._camera)
        for node in self.nodes.values():
            if node.status_timer is not None:  # by the time that the replay takes
                node.status_timer.cancel()
            self._executors[0].add_node(node)
        self._threads = [
            threading.Thread(target=spin, args=(executor,), daemon=True)
            for executor in self._executors
        ]
        for thread in self._threads:
            thread.start()

    def start(self) -> None:
        """Configure and activate the nodes, connected; a ReplayError if one cannot be."""
        for name, node in self.nodes.items():
            if node.trigger_configure() != TransitionCallbackReturn.SUCCESS:
                raise ReplayError(f"{name}: {node.last_error}")
            for output, what in self._outputs_of(node).items():
                self._subscribe(name, node, output, what)
                self._wait(partial(node.wanted, output), f"a subscription to {output} of {name}")
        # While the nodes are inactive they publish nothing: not one message is missed.
        self._wait_for_publishers(self._subscriptions)
        for name, node in self.nodes.items():
            if node.trigger_activate() != TransitionCallbackReturn.SUCCESS:
                raise ReplayError(f"{name}: {node.last_error}")
            node.subscribers_changed()  # images and depth are subscribed when this returns
        self._connect_inputs()

    def _connect_inputs(self) -> None:
        """Wait until publishers and subscriptions of images and depth have found each other."""
        publishers = {IMAGE: self._image, DEPTH: self._depth}
        for topic, publisher in publishers.items():
            if publisher is not None:
                listening = [
                    subscription
                    for node in self.nodes.values()
                    for subscription in node.subscriptions
                    if subscription.topic_name == topic
                ]
                self._wait_for_publishers(listening)
                heard = partial(_heard_by, publisher, len(listening))
                self._wait(heard, f"the subscribers of {topic}")

    def _wait_for_publishers(self, subscriptions: Sequence[Any]) -> None:
        for subscription in subscriptions:
            self._wait(
                subscription.get_publisher_count, f"a publisher of {subscription.topic_name}"
            )

    def step(
        self, header: Header, rgb: np.ndarray, depth: np.ndarray | None, status: bool
    ) -> list[Received]:
        """Feed one frame; what the nodes published because of it, and their status if asked."""
        done = {name: node.frames_done for name, node in self.nodes.items()}
        if self._depth is not None:
            # Without depth an image without a measurement: nodes would wait for one.
            empty = np.zeros(rgb.shape[:2], np.uint16)
            self._depth.publish(depth_message(header, empty if depth is None else depth))
        self._image.publish(rgb_message(header, rgb))
        for name, node in self.nodes.items():
            self._wait(partial(_done, node, done[name]), f"{name} to process a frame")
            if status:
                node.publish_status()
        return self.drain()

    def drain(self) -> list[Received]:
        """Wait for what was published, and take it."""
        for name, node in self.nodes.items():
            for output, (_, _, qos) in self._outputs_of(node).items():
                if not _latched(qos):  # of those only the last arrives
                    self._wait_for_messages(name, node, output)
        with self._lock:
            taken, self._received = self._received, []
        return taken

    def close(self) -> None:
        """End the nodes."""
        for node in self.nodes.values():
            node.close()
        for executor in self._executors:
            executor.shutdown(timeout_sec=5.0)
        for node in self.nodes.values():
            node.destroy_node()
        self._camera.destroy_node()

    def _make(self, entry: str, has_depth: bool) -> PerceptionNode:
        kind = node_class(entry.partition(":")[0])
        declared = {p.name for p in (*kind.COMMON_PARAMETERS, *kind.PARAMETERS)}
        values = {**_OVERRIDES, "depth_timeout": 10.0 if has_depth else 0.0}
        overrides = [Parameter(k, value=v) for k, v in values.items() if k in declared]
        node = make_node(entry, parameter_overrides=overrides)
        assert isinstance(node, PerceptionNode), "perception_nodes has checked it"
        return node

    def _outputs_of(self, node: PerceptionNode) -> Mapping[str, Output]:
        return {
            name: output
            for name, output in node.outputs().items()
            if self._debug_images or name not in DEBUG_OUTPUTS
        }

    def _subscribe(self, name: str, node: PerceptionNode, output: str, what: Output) -> None:
        kind, topic, qos = what
        topic = node.resolve_topic_name(topic)
        profile = QoSProfile(depth=_QUEUE)
        if _latched(qos):
            profile.durability = DurabilityPolicy.TRANSIENT_LOCAL

        def receive(data: bytes) -> None:
            with self._lock:
                self._received.append(Received(name, output, topic, type_name(kind), data))
                self._counts[name, output] += 1

        self._subscriptions.append(
            self._camera.create_subscription(kind, topic, receive, profile, raw=True)
        )

    def _arrived(self, name: str, node: PerceptionNode, output: str) -> bool:
        return self._counts[name, output] >= node.published[output]

    def _wait_for_messages(self, name: str, node: PerceptionNode, output: str) -> None:
        """Wait for what a node has published; what does not come is counted as lost."""
        try:
            arrived = partial(self._arrived, name, node, output)
            self._wait(arrived, f"{output} of {name}", MESSAGE_TIMEOUT)
        except ReplayError:
            with self._lock:
                missing = node.published[output] - self._counts[name, output]
                self.lost[f"{name} {output}"] += missing
                self._counts[name, output] += missing

    def _wait(
        self, condition: Callable[[], Any], what: str, timeout: float = FRAME_TIMEOUT
    ) -> None:
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                raise ReplayError(f"waited {timeout:.0f} s in vain for {what}")
            time.sleep(_POLL)


def _heard_by(publisher: Any, subscribers: int) -> bool:
    return publisher.get_subscription_count() >= subscribers


def _done(node: PerceptionNode, before: int) -> bool:
    return node.frames_done > before and node.settled()


def _latched(qos: QoSProfile | int) -> bool:
    return isinstance(qos, QoSProfile) and qos.durability == DurabilityPolicy.TRANSIENT_LOCAL
