# SPDX-License-Identifier: Apache-2.0
"""What the demo sees over DDS, as any node of a robot would: images, truth, and what is said."""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import rclpy
from lifecycle_msgs.msg import State
from lifecycle_msgs.srv import GetState
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import CompressedImage
from std_srvs.srv import Trigger

from newfound_msgs import msg
from newfound_msgs.srv import ConfirmLabel
from newfound_runtime.managed_node import LATCHED
from scripts.demo.light import CLASSIFIERS, LitThings
from scripts.demo.stack import Stack
from scripts.demo.stamps import Stamp, stamp
from scripts.demo.table import DETECTOR as TABLE_DETECTOR
from scripts.demo.table import RealTable

DETECTOR, CURATOR = "/open_world_detector", "/curator"
_ACTIVE = State.PRIMARY_STATE_ACTIVE


class DemoError(Exception):
    """The demo cannot go on: what was waited for, and how long."""


@dataclass(frozen=True)
class Heard:
    """A message and when it came, in seconds since the demo began."""

    at: float
    message: Any


class Witness:
    """A node that keeps what it hears. Everything runs in `until`, in one thread."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self._began = stack, time.monotonic()
        self.node = Node("demo")
        self.pictures: dict[int, bytes] = {}  # JPEG by the number of the frame in the clip
        self.truths: dict[Stamp, msg.GroundTruth] = {}
        self.detections: list[Heard] = []
        self.unknowns: list[Heard] = []
        self.status: list[Heard] = []
        self.learning: list[Heard] = []
        self.lit, self.table = LitThings(), RealTable()
        self.knowledge: list[Heard] = []
        self.proposals: list[Heard] = []
        self._images: dict[Stamp, bytes] = {}
        self.ended, self.clip_time = False, 0.0  # where the camera is on its time line
        self.listen(CompressedImage, "/camera/image_raw/compressed", self._see)
        self.listen(msg.GroundTruth, "/camera/ground_truth", self._learn_truth)
        for kind, topic, kept in (
            (msg.OpenWorldDetections, f"{DETECTOR}/detections", self.detections),
            (msg.UnknownObject, f"{DETECTOR}/unknowns", self.unknowns),
            (msg.LearningStatus, f"{DETECTOR}/learning", self.learning),
            (msg.LabelProposal, f"{CURATOR}/status", self.status),
        ):
            self.listen(kind, topic, self._keeping(kept))
        self.listen(msg.GroundTruth, "/hand/ground_truth", self.lit.learn_truth)
        for name in CLASSIFIERS:
            hear = functools.partial(self.lit.hear, name)
            self.listen(msg.Classification, f"/{name}/classification", hear)
        self.listen(CompressedImage, "/table/image_raw/compressed", self.table.see)
        self.listen(msg.GroundTruth, "/table/ground_truth", self.table.learn_truth)
        self.listen(msg.OpenWorldDetections, f"{TABLE_DETECTOR}/detections", self.table.hear)
        self.listen(msg.KnowledgeBase, f"{DETECTOR}/knowledge", self._keeping(self.knowledge), 1)
        self.listen(msg.LabelProposals, f"{CURATOR}/proposals", self._keeping(self.proposals), 1)

    def listen(self, kind: type, topic: str, hear: Callable, latched: int = 0) -> None:
        """Subscribe."""
        self.node.create_subscription(kind, topic, hear, LATCHED if latched else 50)

    def now(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began

    def until(self, condition: Callable[[], Any], what: str, seconds: float) -> Any:
        """Listen until it is so, and return it; a DemoError when that takes too long."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            rclpy.spin_once(self.node, timeout_sec=0.2)
            self.stack.check()
            if time.monotonic() > end:
                log = self.stack.log.name
                raise DemoError(f"waited {seconds:.0f} s in vain for {what}; see {log}")
        return found

    def call(self, kind: type, name: str, request: Any, seconds: float = 60.0) -> Any:
        """Call a service; asked again if the first request gets lost."""
        client = self.node.create_client(kind, name)
        self.until(client.service_is_ready, f"the service {name}", seconds)
        for _ in range(3):
            future = client.call_async(request)
            try:
                self.until(future.done, f"an answer of {name}", seconds / 3)
            except DemoError:
                continue
            self.node.destroy_client(client)
            return future.result()
        raise DemoError(f"{name} did not answer in {seconds:.0f} s")

    def wait_for(self, node: str, seconds: float) -> None:
        """Until a node is active."""
        end, request = self.now() + seconds, GetState.Request()
        while self.call(GetState, f"{node}/get_state", request).current_state.id != _ACTIVE:
            if self.now() > end:
                raise DemoError(f"{node} was not active after {seconds:.0f} s")
            rclpy.spin_once(self.node, timeout_sec=0.5)

    def play(self) -> None:
        """Let the camera over the bench begin anew."""
        self.call(Trigger, "/camera/sim_camera/restart", Trigger.Request())
        self.ended, self.clip_time = False, 0.0

    def play_for_ever(self) -> None:
        """Let the camera over the bench begin anew, and again whenever it has ended."""
        parameters = [Parameter("loop", value=True).to_parameter_msg()]
        service = "/camera/sim_camera/set_parameters_atomically"
        request = SetParametersAtomically.Request(parameters=parameters)
        self.call(SetParametersAtomically, service, request)
        self.play()

    def asks(self) -> bool:
        """Whether a person is asked something now."""
        newest = self.proposals[-1].message.proposals if self.proposals else []
        return any(p.state == msg.LabelProposal.STATE_WAITING and p.candidates for p in newest)

    def play_light(self) -> None:
        """Let the camera play before which the light changes."""
        self.call(Trigger, "/hand/sim_camera/restart", Trigger.Request())

    def play_table(self) -> None:
        """Let the camera play that has a real recording."""
        self.table.ended_at = None
        self.call(Trigger, "/table/sim_camera/restart", Trigger.Request())

    def decide(self, unknown_id: str, decision: int, label: str = "") -> ConfirmLabel.Response:
        """What a person would say to the curator."""
        request = ConfirmLabel.Request(unknown_id=unknown_id, decision=decision, label=label)
        return self.call(ConfirmLabel, f"{CURATOR}/confirm_label", request)

    def _keeping(self, kept: list[Heard]) -> Callable[[Any], None]:
        return lambda message: kept.append(Heard(self.now(), message))

    def _see(self, message: CompressedImage) -> None:
        self._images[stamp(message)] = bytes(message.data)
        self._bring_together(stamp(message))

    def _learn_truth(self, message: msg.GroundTruth) -> None:
        self.truths[stamp(message)] = message
        self.ended, self.clip_time = message.last, message.scenario_time
        self._bring_together(stamp(message))

    def _bring_together(self, when: Stamp) -> None:
        if when in self._images and when in self.truths:
            self.pictures[self.truths[when].frame] = self._images.pop(when)
