# SPDX-License-Identifier: Apache-2.0
"""`open_world_detector`: names what it knows, says what it does not, and learns it."""

import sys
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import State
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from sensor_msgs.msg import Image

from newfound_core.detection.detector import Detector
from newfound_core.detection.unknown_object import UnknownObject
from newfound_core.detection.unknowns import View
from newfound_core.errors import NewfoundError
from newfound_core.knowledge.knowledge_base import VERSIONS
from newfound_msgs import msg
from newfound_nodes import Frame, LoadError, PerceptionNode, debug_images, vision_messages
from newfound_nodes.model_node import one_line
from newfound_nodes.open_world.debug_image import draw
from newfound_nodes.open_world.depth_input import DepthInput
from newfound_nodes.open_world.job_status import JobStatus
from newfound_nodes.open_world.keeper import Now
from newfound_nodes.open_world.messages import (
    detections_message,
    knowledge_message,
    learning_message,
    unknown_message,
)
from newfound_nodes.open_world.mind import Listener, Mind
from newfound_nodes.open_world.newcomers import Newcomers
from newfound_nodes.open_world.parameters import PARAMETERS
from newfound_nodes.open_world.proposers import make_proposer
from newfound_nodes.open_world.services import KnowledgeServices
from newfound_nodes.open_world.settings import detector_config, learning_options, mind_config
from newfound_runtime.container import run
from newfound_runtime.managed_node import Output, Status
from newfound_runtime.qos import LATCHED

_VISION = "vision_detections"
_FROM_FRAMES = ("detections", "debug_image", "unknowns")
_WITHOUT_DEPTH = (
    "Set depth_topic to depth images with the stamps of the colour images (depth_tolerance), or "
    "find objects without depth: proposer rpn or whole_image"
)


class OpenWorldDetector(PerceptionNode):
    """Finds objects, names those it knows, follows those it does not, and learns on request."""

    NAME = "open_world_detector"
    PARAMETERS = PARAMETERS
    OUTPUTS: ClassVar = {
        "detections": (msg.OpenWorldDetections, 10),
        "debug_image": (Image, 2),
        "unknowns": (msg.UnknownObject, 50),
        "knowledge": (msg.KnowledgeBase, LATCHED),
        "learning": (msg.LearningStatus, 50),
    }

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self.mind: Mind | None = None
        self._depth: DepthInput | None = None
        self._newcomers: Newcomers | None = None  # listeners to ~/unknowns
        super().__init__(name, **node_arguments)
        self._requests = KnowledgeServices(
            self,
            MutuallyExclusiveCallbackGroup(),
            self._ready_mind,
            lambda: learning_options(self.param),
        )

    def outputs(self) -> Mapping[str, Output]:
        """Those of the node, and vision_msgs' message where it is installed."""
        found = dict(super().outputs())
        if vision_messages.AVAILABLE:
            found[_VISION] = (vision_messages.Detection2DArray, f"~/{_VISION}", 10)
        return found

    # Life.

    def load(self) -> None:
        """Open the knowledge base, and go on with what was being learned."""
        try:
            proposer = make_proposer(self.param)
            detector = Detector(proposer, detector_config(self.param))
            listener = Listener(
                self._tell_knowledge, self._tell_unknown, self._tell_job, self._complain
            )
            config = mind_config(self.param, self.get_fully_qualified_name())
            versions = {place.name for place in (config.root / VERSIONS).glob("*")}
            self.mind = Mind(config, detector, listener)
        except NewfoundError as error:
            raise LoadError(one_line(error)) from error
        self._log_start(self.mind, versions)
        if proposer.needs_depth:
            self._depth = DepthInput(
                self, self.param("depth_topic"), self.param("image_reliability")
            )

    def _log_start(self, mind: Mind, versions: Collection[str]) -> None:
        """Say what is used; `versions` are the folders that were there before."""
        for complaint in mind.complaints:
            self.get_logger().error(complaint)
        now, knowledge = mind.keeper.now, mind.keeper.now.knowledge
        text = f"knowledge version {now.version}: {knowledge.loaded.metadata.method}"
        text += f", {len(knowledge.labels)} classes"
        if f"{now.version:06d}" in versions:
            text += (
                f"; from the knowledge base, checkpoint {self.param('checkpoint')} was not read"
            )
        self.get_logger().info(text)

    def activated(self) -> None:
        """Say what is known, and what waits to be named."""
        if self._depth is not None:
            self._depth.open()
        super().activated()
        assert self.mind is not None
        self._tell_knowledge(self.mind.keeper.now)
        self._newcomers = Newcomers(self.mind.tell)
        self._newcomers.add(entry.id for entry in self.mind.unknowns())

    def deactivated(self) -> None:
        """Let no further images in; what is being learned goes on."""
        super().deactivated()
        if self._depth is not None:
            self._depth.close()

    def unload(self) -> None:
        """Let another node have the knowledge base."""
        if self.mind is not None:
            self.mind.close()
        self.mind = self._depth = self._newcomers = None

    # Frames.

    def frames_wanted(self) -> bool:
        """Knowledge and learning are told of without looking."""
        return self._vision_wanted() or any(self.wanted(output) for output in _FROM_FRAMES)

    def _vision_wanted(self) -> bool:
        return vision_messages.AVAILABLE and self.wanted(_VISION)

    def listeners_changed(self) -> None:
        """Ask for images, and for depth, as they are needed."""
        super().listeners_changed()
        if self._depth is not None:
            self._depth.refresh(self.frames_wanted())
        if self.mind is not None:
            self.mind.tidy()
            if self._newcomers is not None:
                listeners = self._outputs["unknowns"].get_subscription_count()
                self._newcomers.tick(listeners, self._waiting)

    def process(self, frame: Frame) -> None:
        """Find, name, publish."""
        assert self.mind is not None
        header, rgb, depth = frame.header, frame.rgb, self._depth_of(frame)
        stamp = header.stamp.sec * 10**9 + header.stamp.nanosec
        seen = self.mind.see(rgb, depth, View(stamp, header.frame_id, rgb.shape[1], rgb.shape[0]))
        message = detections_message(
            header, seen.version, seen.found, seen.tracks, seen.unknown_ids
        )
        self.publish("detections", message)
        if self._vision_wanted():
            self.publish(_VISION, vision_messages.detections(message))
        if self.wanted("debug_image"):
            picture = draw(rgb, seen.found, seen.tracks)
            self.publish("debug_image", debug_images.message(header, picture))

    def _depth_of(self, frame: Frame) -> np.ndarray | None:
        if self._depth is None:
            return None
        tolerance, patience = self.param("depth_tolerance"), self.param("depth_patience")
        depth = self._depth.at(frame.header.stamp, tolerance, patience)
        if (problem := self._depth.problem()) and self.due("depth"):
            self.get_logger().warning(f"{problem}: nothing is found in those. {_WITHOUT_DEPTH}")
        return depth

    # What others are told, from any thread.

    def _tell_knowledge(self, now: Now) -> None:
        self.publish("knowledge", knowledge_message(now))

    def _tell_unknown(self, entry: UnknownObject) -> None:
        self.publish("unknowns", unknown_message(entry, self.param("crops_published")))

    def _complain(self, complaint: str) -> None:
        if self.due("storage"):
            self.get_logger().error(complaint)

    def _waiting(self) -> list[str]:
        mind = self.mind
        return [e.id for e in mind.unknowns() if e.state == "waiting"] if mind else []

    def _tell_job(self, status: JobStatus) -> None:
        if status.final:
            text = f"job {status.job}, {status.label!r}: {status.stage} {status.message}".rstrip()
            if status.stage in ("done", "cancelled"):
                self.get_logger().info(text)
            else:  # a line of its own: rclpy wants one severity for each
                self.get_logger().warning(text)
        self.publish("learning", learning_message(status, self.get_clock().now().to_msg()))
        self._requests.job_changed(status)

    def health(self) -> Status:
        """How the stream of frames does, and what else a person should look at."""
        level, text, values = super().health()
        troubles = self._troubles()
        if not troubles:
            return level, text, values
        said = [] if level == DiagnosticStatus.OK else [text]
        return max(level, DiagnosticStatus.WARN), "; ".join(said + troubles), values

    def _troubles(self) -> list[str]:
        found = [self._depth.problem()] if self._depth is not None else []
        found += self.mind.troubles() if self.mind is not None else []
        return [trouble for trouble in found if trouble]

    def diagnose(self) -> Mapping[str, object]:
        """What is known, and what is being learned."""
        if self.mind is None:
            return {}
        now = self.mind.keeper.now
        return {
            "device": self.param("device"),
            "model version": now.version,
            "method": now.knowledge.loaded.metadata.method,
            "classes": len(now.knowledge.labels),
            "unknown objects": len(self.mind.unknowns()),
            "learning": ", ".join(sorted(self.mind.queue.labels())) or "nothing",
            "complaints": "; ".join(self.mind.complaints) or "none",
        }

    def _ready_mind(self) -> Mind | None:
        """The mind, if requests can be answered."""
        return self.mind if self.state() == State.PRIMARY_STATE_ACTIVE else None


def main() -> int:
    """Run it until Ctrl-C."""
    return run(OpenWorldDetector)


if __name__ == "__main__":
    sys.exit(main())
