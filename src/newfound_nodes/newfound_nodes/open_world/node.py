# SPDX-License-Identifier: Apache-2.0
"""`open_world_detector`: labels known objects, reports unknown ones, and learns them."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import State
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.qos import qos_profile_sensor_data
from rclpy.subscription import Subscription
from sensor_msgs.msg import CameraInfo
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.detector import Detector
from newfound_core.detection.fused_proposer import FusedProposer
from newfound_core.detection.proposals import Proposer
from newfound_core.detection.same_object import View
from newfound_core.detection.unknown_objects import UnknownObject, UnknownState
from newfound_core.errors import ConfigError, NewfoundError
from newfound_core.knowledge.knowledge_base import VERSIONS
from newfound_core.learning.job import JobStatus
from newfound_msgs import msg
from newfound_nodes import foxglove_messages, vision_messages
from newfound_nodes.model_node import one_line
from newfound_nodes.open_world.depth_input import DepthInput, calibrated
from newfound_nodes.open_world.following import FollowingSession
from newfound_nodes.open_world.frame_session import FrameResult, FrameSession, KnowledgeInUse
from newfound_nodes.open_world.light import LightReport
from newfound_nodes.open_world.messages import (
    adaptation_message,
    annotate,
    detections_message,
    knowledge_message,
    shown,
    unknown_message,
)
from newfound_nodes.open_world.parameters import (
    PARAMETERS,
    default_root,
    detector_config,
    make_proposer,
    session_config,
)
from newfound_nodes.open_world.positions import Positions, markers, note_positions, placed
from newfound_nodes.open_world.replay import LateSubscriberReplay
from newfound_nodes.open_world.reports import ReportClient, ReportService
from newfound_nodes.open_world.services import KnowledgeServices
from newfound_nodes.open_world.session import OpenWorldSession, SessionConfig
from newfound_nodes.transforms import PosedFrame, TargetFrame, TfFrame
from newfound_runtime.images import Frame
from newfound_runtime.managed_node import LATCHED, LoadError, Output, Status
from newfound_runtime.perception_node import DEBUG_OUTPUTS, PerceptionNode, with_problems
from newfound_runtime.services import RequestError

_VISION = "vision_detections"
_VISION_3D = "detections_3d"
_ANNOTATIONS = "annotations"
_LABEL_INFO = "label_info"
_FROM_FRAMES = ("detections", "markers", "unknowns", *DEBUG_OUTPUTS)
_WITHOUT_DEPTH = (
    "Set depth_topic to depth images with the stamps of the colour images (depth_tolerance), or "
    "find objects without depth: proposer regions or whole_image"
)


class OpenWorldDetector(PerceptionNode):
    """Finds objects, labels those it knows, tracks those it does not, and learns on request."""

    NAME = "open_world_detector"
    PARAMETERS = PARAMETERS
    OUTPUTS: ClassVar = {
        "detections": (msg.OpenWorldDetections, 10),
        "markers": (MarkerArray, 2),
        "unknowns": (msg.UnknownObject, 50),
        "knowledge": (msg.KnowledgeBase, LATCHED),
        "learning": (msg.LearningStatus, 50),
        "adaptation": (msg.AdaptationStatus, 10),
    }

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self.session: OpenWorldSession | FollowingSession | None = None
        self._reports: ReportClient | None = None  # to the owner of shared knowledge
        self._depth: DepthInput | None = None
        self._camera_info: Subscription | None = None
        self._positions: Positions | None = None
        self._detector: Detector | None = None
        self._replay: LateSubscriberReplay | None = None  # of ~/unknowns
        super().__init__(name, **node_arguments)
        changes = MutuallyExclusiveCallbackGroup()
        self._knowledge_services = KnowledgeServices(
            self, changes, self._owned_session, lambda: self._active_session().in_use
        )
        ReportService(self, self._owned_session)
        self.create_service(Trigger, "~/reset_adaptation", self._reset_adaptation)

    def _active_session(self) -> FrameSession:
        session = self.session
        if session is None or self.state() != State.PRIMARY_STATE_ACTIVE:
            raise RequestError("NOT_READY", "the node is not active")
        return session

    def _owned_session(self) -> OpenWorldSession:
        """What requests are for; raises a RequestError where there is none."""
        session = self._active_session()
        if not isinstance(session, OpenWorldSession):
            owner = self.param("knowledge_owner")
            raise RequestError("NOT_READY", f"the knowledge is that of {owner}: ask that node")
        return session

    def outputs(self) -> Mapping[str, Output]:
        """Those of the node, and vision_msgs' message where it is installed."""
        found = {**super().outputs(), **DEBUG_OUTPUTS}
        if vision_messages.AVAILABLE:
            found[_VISION] = (vision_messages.Detection2DArray, f"~/{_VISION}", 10)
            found[_VISION_3D] = (vision_messages.Detection3DArray, f"~/{_VISION_3D}", 10)
            found[_LABEL_INFO] = (vision_messages.LabelInfo, f"~/{_LABEL_INFO}", LATCHED)
        if foxglove_messages.AVAILABLE:
            kind = foxglove_messages.ImageAnnotations
            found[_ANNOTATIONS] = (kind, f"~/{_ANNOTATIONS}", 10)
        return found

    # Lifecycle.

    def load(self) -> None:
        """Open the knowledge base, and resume the jobs that were left unfinished."""
        if self.param("camera_pose_topic") and not self.param("target_frame"):
            raise LoadError("camera_pose_topic needs target_frame: the frame of the poses")
        try:
            proposer = make_proposer(self.param)
            detector = Detector(proposer, detector_config(self.param))
            owner = self.param("knowledge_owner")
            config = session_config(self.param, owner or self.get_fully_qualified_name())
            versions = {place.name for place in (config.root / VERSIONS).glob("*")}
            self.session = (
                self._follow(owner, config, detector)
                if owner
                else OpenWorldSession(config, detector, self)
            )
        except NewfoundError as error:
            raise LoadError(one_line(error)) from error
        self._log_start(self.session, versions)
        self._detector = detector
        if self.param("depth_topic"):
            self._depth = DepthInput(
                self,
                self.param("depth_topic"),
                self.param("image_reliability"),
                self.param("depth_transport"),
            )
        topic = self.param("camera_info_topic")
        self._positions = Positions(topic, self._target_frame())
        if topic:
            self._camera_info = self.create_subscription(
                CameraInfo,
                topic,
                lambda message: self._calibrate(proposer, message),
                qos_profile_sensor_data,
            )

    def _target_frame(self) -> TargetFrame | None:
        frame, tolerance = self.param("target_frame"), self.param("transform_tolerance")
        if not frame:
            return None
        if topic := self.param("camera_pose_topic"):
            return PosedFrame(self, topic, frame, tolerance)
        return TfFrame(self, frame, tolerance)

    def _follow(self, owner: str, config: SessionConfig, detector: Detector) -> FollowingSession:
        """Share the knowledge of another node; both are told of unknown objects only once."""
        own = self.get_fully_qualified_name()
        if owner == own:
            raise ConfigError("knowledge_owner is this node itself: leave it empty")
        reports = ReportClient(self, owner, MutuallyExclusiveCallbackGroup())
        try:
            session = FollowingSession(
                config, default_root(own), detector, self, send=reports.send
            )
        except BaseException:
            reports.close()
            raise
        reports.answered = session.answered
        self._reports = reports
        return session

    def _calibrate(self, proposer: Proposer, message: CameraInfo) -> None:
        if not (message.k[0] > 0 and message.k[4] > 0 and message.width and message.height):
            if self.due("camera_info"):
                self.get_logger().warning(
                    f"{self.param('camera_info_topic')} has no focal length: the camera is not "
                    "calibrated. That of a usual depth camera is used, and there are no positions"
                )
            return
        if isinstance(proposer, DepthSegments | FusedProposer):
            proposer.camera = calibrated(proposer.camera, message) or proposer.camera
        if self._positions is not None:
            self._positions.calibrate(message)

    def _log_start(self, session: FrameSession, versions: Collection[str]) -> None:
        """Log what is used; `versions` are the folders that existed before."""
        for warning in session.warnings:
            self.get_logger().error(warning)
        in_use = session.in_use
        text = f"knowledge version {in_use.version}: {in_use.knowledge.loaded.metadata.method}"
        text += f", {len(in_use.knowledge.labels)} classes"
        if owner := self.param("knowledge_owner"):
            text += f"; shared with {owner}, who learns"
        elif f"{in_use.version:06d}" in versions:
            text += (
                f"; from the knowledge base, checkpoint {self.param('checkpoint')} was not read"
            )
        self.get_logger().info(text)

    def activated(self) -> None:
        """Publish what is known, and which unknown objects wait for a label."""
        if self._depth is not None:
            self._depth.open()
        super().activated()
        assert self.session is not None
        self.knowledge_changed(self.session.in_use)
        if isinstance(self.session, OpenWorldSession):  # else the owner publishes them
            self._replay = LateSubscriberReplay(self.session.announce)
            self._replay.add(entry.id for entry in self.session.unknowns())

    def deactivated(self) -> None:
        """Stop images; a job at work goes on."""
        super().deactivated()
        if self._depth is not None:
            self._depth.close()

    def unload(self) -> None:
        """Release the knowledge base."""
        if self.session is not None:
            self.session.close()
        if self._reports is not None:
            self._reports.close()
        if self._camera_info is not None:
            self.destroy_subscription(self._camera_info)
        if self._positions is not None:
            self._positions.close()
        self._positions = self._detector = self._reports = None
        self.session = self._depth = self._replay = self._camera_info = None

    # Frames.

    def frames_wanted(self) -> bool:
        """Knowledge and jobs are published without frames."""
        return self._vision_wanted() or any(self.wanted(output) for output in _FROM_FRAMES)

    def _vision_wanted(self) -> bool:
        names = (_VISION, _VISION_3D, _ANNOTATIONS)
        return any(name in self._outputs and self.wanted(name) for name in names)

    def _positions_wanted(self) -> bool:
        vision = vision_messages.AVAILABLE and self.wanted(_VISION_3D)
        return self.param("positions") or vision or self.wanted("markers")

    def _depth_wanted(self) -> bool:
        detector = self._detector
        needed = detector is not None and detector.proposer.needs_depth
        return needed or self._positions_wanted()

    def subscribers_changed(self) -> None:
        """Subscribe to images and depth as they are needed."""
        super().subscribers_changed()
        if self._depth is not None:
            self._depth.refresh(self.frames_wanted() and self._depth_wanted())
        if self.session is not None:
            self.session.tick()
            self._publish_adaptation(self.session)
            if self._replay is not None:
                subscribers = self._outputs["unknowns"].get_subscription_count()
                self._replay.tick(subscribers, self._waiting)

    def process(self, frame: Frame) -> None:
        """Detect, publish."""
        assert self.session is not None
        assert self._positions is not None
        header, rgb, depth = frame.header, frame.rgb, self._depth_of(frame)
        stamp = header.stamp.sec * 10**9 + header.stamp.nanosec
        view = View(stamp, header.frame_id, rgb.shape[1], rgb.shape[0])
        self._prepare_positions(depth)
        result = self._shown(self.session.process(rgb, depth, view))
        message = detections_message(header, result)
        if self._positions_wanted():
            self._positions.add_target(message)
            note_positions(self.session, message, result)
        self.publish("detections", message)
        self._publish_vision(message)
        if self.wanted("markers"):
            self.publish("markers", markers(message))
        if self.debug_wanted():
            self.publish_picture(header, annotate(rgb, result))

    def _shown(self, result: FrameResult) -> FrameResult:
        """What the filters let out; tracking and unknown objects know nothing of them."""
        unknown = self.param("unknown_class_id") or "unknown"
        return shown(result, self.param("shown_classes"), self.param("min_score"), unknown)

    def _prepare_positions(self, depth: np.ndarray | None) -> None:
        """Let the detector measure positions if they are wanted and can be measured."""
        assert self._detector is not None
        assert self._positions is not None
        wanted = self._positions_wanted()
        self._detector.locator = self._positions.locator(depth) if wanted else None
        for kind, problem in self._position_problems().items():
            if self.due(kind):  # one must not hold back another
                self.get_logger().warning(problem)

    def _position_problems(self) -> dict[str, str]:
        if self._positions is None or not self._positions_wanted():
            return {}
        return self._positions.problems()

    def _publish_vision(self, message: msg.OpenWorldDetections) -> None:
        if not self._vision_wanted():
            return
        unknown = self.param("unknown_class_id")
        if foxglove_messages.AVAILABLE and self.wanted(_ANNOTATIONS):
            self.publish(_ANNOTATIONS, foxglove_messages.annotations(message))
        if not vision_messages.AVAILABLE:
            return
        if self.wanted(_VISION):
            self.publish(_VISION, vision_messages.detections(message, unknown))
        if self.wanted(_VISION_3D):
            made = vision_messages.detections_3d(message, *placed(message), unknown)
            self.publish(_VISION_3D, made)

    def _depth_of(self, frame: Frame) -> np.ndarray | None:
        if self._depth is None or not self._depth_wanted():
            return None
        tolerance, timeout = self.param("depth_tolerance"), self.param("depth_timeout")
        depth = self._depth.of(frame, tolerance, timeout)
        problems = self._depth.problems()
        if problems and self.due("depth"):
            self.get_logger().warning(f"{'; '.join(problems)}. {_WITHOUT_DEPTH}")
        return depth

    # Adaptation.

    def parameters_changed(self, names: set[str]) -> None:
        """Switching and freezing count from the next frame on."""
        if self.session is not None:
            self.session.light.switch(self.param("adapt"))
            if "freeze" in names:
                self.session.light.freeze(self.param("freeze"))

    def _publish_adaptation(self, session: FrameSession) -> None:
        if self.wanted("adaptation"):
            stamp = self.get_clock().now().to_msg()
            message = adaptation_message(session.light.report(), session.light.config, stamp)
            self.publish("adaptation", message)

    def _reset_adaptation(
        self, _: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        response.success = self.session is not None
        if self.session is None:
            response.message = "the node is not configured"
        else:
            self.session.light.reset()
            response.message = "learned classes are as they were learned again"
        return response

    def _waiting(self) -> list[str]:
        session = self.session
        entries = session.unknowns() if session is not None else []
        return [entry.id for entry in entries if entry.state == UnknownState.WAITING]

    # Events of the session, from any thread.

    def knowledge_changed(self, in_use: KnowledgeInUse) -> None:
        """Publish what is known."""
        self.publish("knowledge", knowledge_message(in_use))
        if vision_messages.AVAILABLE:
            stamp, labels = self.get_clock().now().to_msg(), in_use.knowledge.labels
            self.publish(_LABEL_INFO, vision_messages.label_info(stamp, labels))

    def unknown_changed(self, entry: UnknownObject) -> None:
        """Publish an unknown object."""
        self.publish("unknowns", unknown_message(entry, self.param("crops_published")))

    def storage_failed(self, message: str) -> None:
        """Log that the disk refuses."""
        if self.due("storage"):
            self.get_logger().error(message)

    def job_changed(self, status: JobStatus) -> None:
        """Tell where a job is."""
        self._knowledge_services.job_changed(status)

    # Diagnostics.

    def health(self) -> Status:
        """The state of the stream, of depth, of jobs and of the knowledge base."""
        session = self.session
        depth = []
        if self._depth is not None and self._depth_wanted():
            depth = self._depth.problems()
        problems = session.problems() if session is not None else []
        problems = depth + list(self._position_problems().values()) + problems
        level, text, values = with_problems(super().health(), problems)
        if session is not None and (errors := session.errors()):
            return DiagnosticStatus.ERROR, "; ".join(errors), values
        return level, text, values

    def diagnose(self) -> Mapping[str, object]:
        """What is known, and what is being learned."""
        if self.session is None:
            return {}
        in_use = self.session.in_use
        return {
            "device": self.param("device"),
            "backend": self.param("backend"),
            "model version": in_use.version,
            "method": in_use.knowledge.loaded.metadata.method,
            "classes": len(in_use.knowledge.labels),
            "unknown objects": len(self.session.unknowns()),
            "not announced": _counts(self.session.held_back()),
            "learning": ", ".join(sorted(self.session.learning())) or "nothing",
            **_adaptation(self.session.light.report()),
            "warnings": "; ".join(self.session.warnings) or "none",
        }


def _adaptation(report: LightReport) -> Mapping[str, object]:
    status = report.status
    return {
        "adaptation": report.state,
        "adaptation updates": status.updates,
        "adaptation shift": round(status.length, 4),
    }


def _counts(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {why}" for why, count in sorted(reasons.items())) or "none"
