# SPDX-License-Identifier: Apache-2.0
"""`open_world_detector`: names what it knows, says what it does not, and learns it."""

import math
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from lifecycle_msgs.msg import State
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from sensor_msgs.msg import Image

from newfound_core.detection.detector import Detector, DetectorConfig
from newfound_core.detection.unknown_object import UnknownObject
from newfound_core.detection.unknowns import UnknownsConfig, View
from newfound_core.errors import NewfoundError
from newfound_core.open_world.job import LearningOptions
from newfound_msgs import msg
from newfound_nodes import Frame, LoadError, PerceptionNode, debug_images, vision_messages
from newfound_nodes.managed_node import Output
from newfound_nodes.model_node import find_checkpoint, one_line
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
from newfound_nodes.open_world.mind import Listener, Mind, MindConfig
from newfound_nodes.open_world.parameters import PARAMETERS
from newfound_nodes.open_world.proposers import make_proposer
from newfound_nodes.open_world.services import KnowledgeServices
from newfound_nodes.qos import LATCHED
from newfound_nodes.runtime import run

_VISION = "vision_detections"
_A_MOMENT = 0.5  # s; whoever has found us can hear us by then
_FROM_FRAMES = ("detections", "debug_image", "unknowns")


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
        self._ears, self._new_ears_since = 0, math.inf  # listeners to ~/unknowns
        super().__init__(name, **node_arguments)
        self._requests = KnowledgeServices(
            self, MutuallyExclusiveCallbackGroup(), self._ready_mind, self._learning_options
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
            proposer = make_proposer(
                self.param("proposer"), self.param("proposer_checkpoint"), self.param("device")
            )
            detector = Detector(proposer, self._detector_config())
            listener = Listener(self._tell_knowledge, self._tell_unknown, self._tell_job)
            self.mind = Mind(self._mind_config(), detector, listener)
        except NewfoundError as error:
            raise LoadError(one_line(error)) from error
        for complaint in self.mind.complaints:
            self.get_logger().error(complaint)
        if proposer.needs_depth:
            self._depth = DepthInput(
                self, self.param("depth_topic"), self.param("image_reliability")
            )

    def activated(self) -> None:
        """Say what is known, and what waits to be named."""
        if self._depth is not None:
            self._depth.open()
        super().activated()
        assert self.mind is not None
        self._tell_knowledge(self.mind.keeper.now)
        for entry in self.mind.unknowns():
            self._tell_unknown(entry)

    def deactivated(self) -> None:
        """Let no further images in; what is being learned goes on."""
        super().deactivated()
        if self._depth is not None:
            self._depth.close()

    def unload(self) -> None:
        """Let another node have the knowledge base."""
        if self.mind is not None:
            self.mind.close()
        self.mind = self._depth = None

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
            self.mind.expire()
            self._tell_newcomers(self.mind)

    def process(self, frame: Frame) -> None:
        """Find, name, publish."""
        assert self.mind is not None
        header, rgb = frame.header, frame.rgb
        depth = None
        if self._depth is not None:
            depth = self._depth.at(
                header.stamp, self.param("depth_tolerance"), self.param("depth_patience")
            )
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

    # What others are told, from any thread.

    def _tell_knowledge(self, now: Now) -> None:
        self.publish("knowledge", knowledge_message(now))

    def _tell_unknown(self, entry: UnknownObject) -> None:
        self.publish("unknowns", unknown_message(entry, self.param("crops_published")))

    def _tell_newcomers(self, mind: Mind) -> None:
        """Whoever begins to listen is told what waits to be named; others hear it again."""
        ears, now = self._outputs["unknowns"].get_subscription_count(), time.monotonic()
        if ears > self._ears:
            self._new_ears_since = now
        self._ears = ears
        if now - self._new_ears_since < _A_MOMENT:
            return
        self._new_ears_since = math.inf
        for entry in mind.unknowns():
            if entry.state == "waiting":
                self._tell_unknown(entry)

    def _tell_job(self, status: JobStatus) -> None:
        self.publish("learning", learning_message(status, self.get_clock().now().to_msg()))
        self._requests.job_changed(status)

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

    # From parameters.

    def _ready_mind(self) -> Mind | None:
        """The mind, if requests can be answered."""
        return self.mind if self.state() == State.PRIMARY_STATE_ACTIVE else None

    def _detector_config(self) -> DetectorConfig:
        return DetectorConfig(
            max_regions=self.param("max_regions"),
            min_objectness=self.param("min_objectness"),
            max_overlap=self.param("max_overlap"),
            margin=self.param("crop_margin"),
        )

    def _mind_config(self) -> MindConfig:
        home = Path(os.environ.get("ROS_HOME", "~/.ros")).expanduser()
        default = home / "newfound" / self.get_fully_qualified_name().strip("/")
        checkpoint = self.param("checkpoint")
        return MindConfig(
            root=Path(self.param("knowledge_base") or default).expanduser(),
            shipped=find_checkpoint(checkpoint) if checkpoint else None,
            device=self.param("device"),
            versions_kept=self.param("versions_kept"),
            unknowns=UnknownsConfig(
                announce_after=self.param("announce_after"),
                same_similarity=self.param("same_similarity"),
                max_unknowns=self.param("max_unknowns"),
                max_age=86400 * self.param("max_unknown_days"),
                crops=self.param("crops_kept"),
                crop_gap=self.param("crop_gap"),
            ),
            queue_limit=self.param("queue_limit"),
            learner=self._learner(),
        )

    def _learner(self) -> tuple[str, ...]:
        options = {name: str(self.param(f"learning_{name}")) for name in ("threads", "niceness")}
        flags = [part for name, value in options.items() for part in (f"--{name}", value)]
        return (sys.executable, "-m", "newfound_training", "learn", *flags, "--job")

    def _learning_options(self) -> LearningOptions:
        return LearningOptions(
            epochs=self.param("learning_epochs"),
            max_accuracy_loss=self.param("max_accuracy_loss"),
        )


def main() -> int:
    """Run it until Ctrl-C."""
    return run(OpenWorldDetector)


if __name__ == "__main__":
    sys.exit(main())
