# SPDX-License-Identifier: Apache-2.0
"""`segmenter`: a class for every pixel, and new classes learned on the robot from masks."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import State
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from sensor_msgs.msg import Image

from newfound_core.errors import NewfoundError
from newfound_core.learning.job import JobStatus
from newfound_core.onda.folding import logits_of
from newfound_core.segmentation.segmenter import Segmenter, decide
from newfound_msgs import msg
from newfound_nodes import vision_messages
from newfound_nodes.adaptation.state import StateError
from newfound_nodes.adaptation.updates import Adaptation
from newfound_nodes.adaptive_classifier import AdaptiveClassifier, entropy
from newfound_nodes.model_node import ModelNode, one_line, probabilities_of
from newfound_nodes.segmenter.messages import annotate, knowledge_message
from newfound_nodes.segmenter.parameters import PARAMETERS, segment_config, segment_options
from newfound_nodes.segmenter.services import SegmentServices
from newfound_nodes.segmenter.session import SegmentSession, SegmentsInUse
from newfound_runtime import perception_node
from newfound_runtime.images import Frame, mono_message
from newfound_runtime.managed_node import LATCHED, LoadError, Output, Status
from newfound_runtime.parameters import Parameter
from newfound_runtime.perception_node import DEBUG_OUTPUTS, PerceptionNode, with_problems
from newfound_runtime.services import RequestError

_LABELS = "labels"
_FROM_FRAMES = ("mask", "confidence", *DEBUG_OUTPUTS)


class Serving(NamedTuple):
    """What one frame is made with."""

    segmenter: Segmenter
    adaptation: Adaptation | None


class SegmenterNode(AdaptiveClassifier):
    """One mask for each image; ONDA follows the stream as in the adaptive classifier."""

    NAME = "segmenter"
    METHODS = ("segmentation",)
    TASK_METHODS = ()  # versions of the knowledge base take the place of tasks
    PARAMETER_PREFIXES = ()
    COMMON_PARAMETERS: ClassVar[Sequence[Parameter]] = tuple(
        p for p in ModelNode.COMMON_PARAMETERS if p.name not in ("reject_unknown", "base")
    )
    PARAMETERS = PARAMETERS
    OUTPUTS: ClassVar = {
        "mask": (Image, 5),
        "confidence": (Image, 5),
        "knowledge": (msg.KnowledgeBase, LATCHED),
        "learning": (msg.LearningStatus, 50),
        "adaptation": (msg.AdaptationStatus, 10),
    }

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self.session: SegmentSession | None = None
        self._serving: Serving | None = None
        super().__init__(name, **node_arguments)
        self._knowledge_services = SegmentServices(
            self,
            MutuallyExclusiveCallbackGroup(),
            self._active_session,
            lambda: segment_options(self.param),
        )

    def _active_session(self) -> SegmentSession:
        """What requests are for; raises a RequestError where there is none."""
        session = self.session
        if session is None or self.state() != State.PRIMARY_STATE_ACTIVE:
            raise RequestError("NOT_READY", "the node is not active")
        return session

    def outputs(self) -> Mapping[str, Output]:
        """Those of the node, and vision_msgs' list of labels where it is installed."""
        found = {**PerceptionNode.outputs(self), **DEBUG_OUTPUTS}
        if vision_messages.AVAILABLE:
            found[_LABELS] = (vision_messages.LabelInfo, f"~/{_LABELS}", LATCHED)
        return found

    # Lifecycle.

    def load(self) -> None:
        """Open the knowledge base, serve its network, and resume unfinished jobs."""
        try:
            config = segment_config(self.param, self.get_fully_qualified_name())
            session = SegmentSession(config, self)
            try:
                self._serve(session.in_use)
            except BaseException:
                session.close()
                raise
        except (NewfoundError, StateError) as error:
            raise LoadError(one_line(error)) from error
        for warning in session.warnings:
            self.get_logger().error(warning)
        self.session = session
        labels = session.in_use.segmenter.labels
        self.get_logger().info(
            f"knowledge version {session.version()}: {len(labels) - 1} classes, on "
            f"{self.loaded.device} by {self.param('backend')}"
        )
        session.start()

    def _serve(self, in_use: SegmentsInUse) -> None:
        """Let the next frame be labelled by this network; the one in work ends with its own."""
        before = self._adaptation
        segmenter = in_use.segmenter
        if (least := self.param("min_confidence")) >= 0:
            segmenter.min_confidence = least
        self.loaded, self.inference = segmenter.loaded, segmenter.inference
        # A network that learned has statistics of its own to start from.
        self._begin_with(self._with_adaptation("", self.loaded, self.inference))
        self._serving = Serving(segmenter, self._adaptation)
        if before is not None:
            before.close(perception_node.WORKER_TIMEOUT)

    def activated(self) -> None:
        """Publish what is known."""
        super().activated()
        assert self.session is not None
        self._publish_knowledge(self.session.in_use)

    def unload(self) -> None:
        """Release the knowledge base and the network."""
        if self.session is not None:
            self.session.close()
        self.session = self._serving = None
        super().unload()

    # Frames.

    def frames_wanted(self) -> bool:
        """Knowledge and jobs are published without frames."""
        return any(self.wanted(output) for output in _FROM_FRAMES)

    def process(self, frame: Frame) -> None:
        """One image in, its mask out."""
        serving = self._serving
        assert serving is not None
        segmenter, adaptation = serving
        output = segmenter.inference([frame.rgb])
        size = (frame.rgb.shape[1], frame.rgb.shape[0])
        pixels = output.pixels[0].detach().cpu()
        found = decide(pixels, size, segmenter.min_confidence)
        self.publish("mask", mono_message(frame.header, found.mask))
        if self.wanted("confidence"):
            self.publish("confidence", mono_message(frame.header, found.confidence))
        self._header = frame.header
        if adaptation is not None:
            adaptation.count_frame(entropy(probabilities_of(logits_of(output)[0])))
        if self.debug_wanted():
            picture = annotate(frame.rgb, found.mask, segmenter.labels)
            self.publish_picture(frame.header, picture)

    def parameters_changed(self, names: set[str]) -> None:
        """A new threshold counts from the next frame on, new options of ONDA as well."""
        super().parameters_changed(names)
        if "min_confidence" in names and self._serving is not None:
            segmenter, least = self._serving.segmenter, self.param("min_confidence")
            own = segmenter.loaded.metadata.thresholds.get("min_confidence", 0.0)
            segmenter.min_confidence = least if least >= 0 else own

    # Events of the session, from any thread.

    def knowledge_changed(self, in_use: SegmentsInUse) -> None:
        """Serve another network, and publish what it knows."""
        self._serve(in_use)
        self._publish_knowledge(in_use)

    def _publish_knowledge(self, in_use: SegmentsInUse) -> None:
        self.publish("knowledge", knowledge_message(in_use))
        if vision_messages.AVAILABLE:
            stamp, segmenter = self.get_clock().now().to_msg(), in_use.segmenter
            made = vision_messages.label_info(stamp, segmenter.labels, segmenter.min_confidence)
            self.publish(_LABELS, made)

    def job_changed(self, status: JobStatus) -> None:
        """Tell where a job is."""
        self._knowledge_services.job_changed(status)

    # Diagnostics.

    def health(self) -> Status:
        """The state of the stream, of adaptation, of jobs and of the knowledge base."""
        session = self.session
        problems = session.problems() if session is not None else []
        level, text, values = with_problems(super().health(), problems)
        if session is not None and (errors := session.errors()):
            return DiagnosticStatus.ERROR, "; ".join(errors), values
        return level, text, values

    def diagnose(self) -> Mapping[str, object]:
        """What is known, and what is being learned."""
        session = self.session
        if session is None:
            return {}
        return {
            **super().diagnose(),
            "model version": session.version(),
            "classes": len(session.in_use.segmenter.labels) - 1,
            "learning": ", ".join(sorted(session.jobs.labels())) or "nothing",
        }
