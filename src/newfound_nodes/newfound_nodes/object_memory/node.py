# SPDX-License-Identifier: Apache-2.0
"""`object_memory`: remembers where things were seen, and answers where they are."""

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import State
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from sensor_msgs.msg import CompressedImage
from visualization_msgs.msg import MarkerArray

from newfound_core.detection.absence import Look, Place, look_at
from newfound_core.errors import NewfoundError
from newfound_core.object_memory import ObjectMemory, RememberedObject
from newfound_msgs import msg
from newfound_msgs.srv import FindObject, ForgetObject, ListObjects
from newfound_nodes.object_memory.cameras import Camera, nanoseconds
from newfound_nodes.object_memory.messages import (
    jpeg_of,
    markers,
    remembered_message,
    sightings,
)
from newfound_nodes.transforms import rotation_matrix, vector
from newfound_runtime.managed_node import LoadError, ManagedNode, Status
from newfound_runtime.parameters import Parameter
from newfound_runtime.perception_node import with_problems
from newfound_runtime.services import RequestError, answering

_LIMIT = 100  # objects of an answer, unless asked for more
_SHOWN = 500  # markers
_PRESENT = 0.5  # presence above which a thing is shown
_BETTER = 1.2  # factor of quality for a view to replace another: most frames write none
_WARN_AFTER = 5.0  # s of detections without positions

PARAMETERS = (
    Parameter("database", "", "SQLite file; empty: newfound/<name of the node>.db in $ROS_HOME."),
    Parameter("max_objects", 10000, "Things kept; the least probable go first.", 1, 1000000),
    Parameter(
        "cameras",
        [""],
        "Namespaces of the cameras whose detectors are listened to; empty: that of this node.",
    ),
    Parameter("detector", "open_world_detector", "Name of the detector of each camera."),
    Parameter(
        "depth_topic",
        "depth",
        "Depth of each camera, to see that a thing is gone; empty: this is not looked for.",
    ),
    Parameter("depth_transport", "raw", "How depth is sent.", choices=("raw", "compressedDepth")),
    Parameter("camera_info_topic", "camera_info", "sensor_msgs/CameraInfo of that depth."),
    Parameter("image_topic", "image", "Images of each camera, for views; empty: none are kept."),
    Parameter("image_transport", "raw", "How they are sent.", choices=("raw", "compressed")),
    Parameter(
        "target_frame",
        "",
        "Frame in which positions must be, such as map, or a thing is not remembered; empty: any.",
    ),
    Parameter("max_range", 4.0, "Distance up to which things are missed (m).", 0.1, 100.0),
    Parameter(
        "min_score", 0.5, "Score a known class needs to be remembered.", 0.0, 1.0, live=True
    ),
)


class ObjectMemoryNode(ManagedNode):
    """Merges the detections of all cameras into one database of things."""

    NAME = "object_memory"
    PARAMETERS = PARAMETERS
    OUTPUTS: ClassVar = {"markers": (MarkerArray, 2)}

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self.memory: ObjectMemory | None = None
        self._cameras: list[Camera] = []
        self._error = ""  # of the disk
        self._without, self._placeless = math.inf, False  # since when nothing had a position
        self._frame_problem = ""  # of positions
        super().__init__(name, **node_arguments)
        group = MutuallyExclusiveCallbackGroup()
        for kind, service, handler in (
            (FindObject, "~/find_object", self._find),
            (ListObjects, "~/list_objects", self._list),
            (ForgetObject, "~/forget_object", self._forget),
        ):
            self.create_service(kind, service, answering(self, handler), callback_group=group)

    # Lifecycle.

    def load(self) -> None:
        """Open the database."""
        home = Path(os.environ.get("ROS_HOME", "~/.ros")).expanduser()
        default = home / "newfound" / f"{self.get_fully_qualified_name().strip('/')}.db"
        path = Path(self.param("database") or default).expanduser()
        try:
            self.memory = ObjectMemory(path, self.param("max_objects"))
        except NewfoundError as error:
            raise LoadError(str(error)) from error
        self.get_logger().info(f"{self.memory.count()} objects in {path}")

    def activated(self) -> None:
        """Listen to the detectors."""
        self._cameras = [Camera(self, each, self._on_detections) for each in self.param("cameras")]
        for camera in self._cameras:
            camera.subscribe(msg.UnknownObject, self.param("detector"), "unknowns", self._learned)

    def deactivated(self) -> None:
        """Stop listening."""
        for camera in self._cameras:
            camera.close()
        self._cameras = []

    def unload(self) -> None:
        """Release the database."""
        if self.memory is not None:
            self.memory.close()
        self.memory = None

    # Detections.

    def _on_detections(self, camera: Camera, message: msg.OpenWorldDetections) -> None:
        memory = self.memory
        if memory is None:
            return
        if not self._check_positions(message):
            return
        kept = [(each, one) for each, one in sightings(message) if self._trusted(each)]
        try:
            ids = memory.see([one for _, one in kept])
            self._look(memory, camera, message, ids)
            for number, (each, one) in zip(ids, kept, strict=True):
                known = memory.get(number)
                if known is None or one.view_quality <= _BETTER * known.view_quality:
                    continue
                rgb = camera.image_at(message.header.stamp)
                if rgb is not None:
                    memory.set_view(number, one.view_quality, jpeg_of(rgb, each.region))
            if ids:  # a frame without things writes nothing, which a full disk allows
                self._error = ""
        except NewfoundError as error:
            self._failed(error)

    def _trusted(self, found: msg.OpenWorldDetection) -> bool:
        return not found.label or found.score >= self.param("min_score")

    def _check_positions(self, message: msg.OpenWorldDetections) -> bool:
        """Whether positions are in a frame that is remembered; warn if there are none, or not."""
        now, wanted = time.monotonic(), self.param("target_frame")
        frame = message.target_frame or message.header.frame_id
        right = frame == wanted if wanted else bool(message.target_frame)
        if any(each.has_position for each in message.detections):
            self._without, self._placeless = math.inf, False
            problem = "" if right else _frame_problem(frame, wanted)
            if problem and problem != self._frame_problem:
                self.get_logger().warning(problem + (_FOLLOWED if wanted else _FIXED))
            self._frame_problem = problem
        elif message.detections:
            self._without = min(self._without, now)
            if now - self._without > _WARN_AFTER and not self._placeless:
                self._placeless = True
                self.get_logger().warning(_WITHOUT_POSITIONS)
        return right or not wanted

    def _look(
        self,
        memory: ObjectMemory,
        camera: Camera,
        message: msg.OpenWorldDetections,
        seen: list[int],
    ) -> None:
        """Look for things that should be in view and were not detected."""
        depth = camera.depth_at(message.header.stamp)
        calibrated = camera.calibration()
        if depth is None or calibrated is None:
            return
        turn, shift = np.eye(3), np.zeros(3)
        if message.target_frame:
            turn = rotation_matrix(message.to_target.rotation)
            shift = vector(message.to_target.translation)
        frame = message.target_frame or message.header.frame_id
        reach = self.param("max_range")
        near = memory.near(frame, tuple(shift.tolist()), reach, 0.02, _SHOWN)
        missed = [each for each in near if each.id not in seen]
        if not missed:
            return
        places = [
            Place(
                (np.array(each.position) - shift) @ turn,
                turn.T @ each.box.axes(),
                np.array(each.box.size),
                each.error,
            )
            for each in missed
        ]
        looks = look_at(places, depth, calibrated)
        by = {
            kind: [each.id for each, look in zip(missed, looks, strict=True) if look is kind]
            for kind in (Look.SEEN_THROUGH, Look.OCCUPIED)
        }
        memory.look(by[Look.SEEN_THROUGH], by[Look.OCCUPIED], nanoseconds(message.header.stamp))

    def _learned(self, _: Camera, message: msg.UnknownObject) -> None:
        """A learned class renames what was unknown."""
        memory, states = self.memory, msg.UnknownObject
        try:
            if memory is None:
                return
            if message.state == states.STATE_LEARNED and message.label:
                if renamed := memory.rename(message.id, message.label):
                    self.get_logger().info(f"{message.id} is {message.label!r}: {renamed} renamed")
            elif message.state == states.STATE_MERGED and message.merged_into:
                memory.merge_unknown(message.id, message.merged_into)
        except NewfoundError as error:
            self._failed(error)

    def _failed(self, error: NewfoundError) -> None:
        if str(error) != self._error:
            self.get_logger().error(str(error))
        self._error = str(error)

    # Services.

    def _ready(self) -> ObjectMemory:
        if self.memory is None or self.state() != State.PRIMARY_STATE_ACTIVE:
            raise RequestError("NOT_READY", "the node is not active")
        return self.memory

    def _find(self, request: FindObject.Request, response: Any) -> None:
        memory = self._ready()
        found = memory.find(request.label, request.min_presence, request.limit or _LIMIT)
        if not found:
            raise RequestError(
                "NOTHING_FOUND", f"no {request.label or 'unknown thing'!r} was seen"
            )
        response.objects = [self._message(memory, each, request.views) for each in found]
        best = found[0]
        place = ", ".join(f"{value:.2f}" for value in best.position)
        response.message = (
            f"{best.label or 'unknown thing'}: ({place}) m in {best.frame!r}, present with "
            f"probability {best.presence:.2f}; {len(found)} found"
        )

    def _list(self, request: ListObjects.Request, response: Any) -> None:
        memory, limit = self._ready(), request.limit or _LIMIT
        if request.radius > 0:
            centre = (request.centre.x, request.centre.y, request.centre.z)
            found = memory.near(
                request.frame_id, centre, request.radius, request.min_presence, limit
            )
        else:
            found = memory.latest(request.frame_id, request.min_presence, limit)
        response.objects = [self._message(memory, each, request.views) for each in found]
        response.message = f"{len(found)} found"

    def _forget(self, request: ForgetObject.Request, response: Any) -> None:
        digits = request.id.removeprefix("o")
        known = digits.isascii() and digits.isdigit() and len(digits) < 19
        if not (known and self._ready().forget(int(digits))):
            self._ready()
            raise RequestError("UNKNOWN_ID", f"there is no object {request.id!r}")
        response.message = f"{request.id} is forgotten"

    def _message(
        self, memory: ObjectMemory, each: RememberedObject, view: bool
    ) -> msg.RememberedObject:
        message = remembered_message(each)
        if view:
            message.view = CompressedImage(
                header=message.header, format="jpeg", data=memory.view(each.id)
            )
        return message

    # Markers and diagnostics.

    def subscribers_changed(self) -> None:
        """Once a second: show what is remembered, if someone looks."""
        memory = self.memory
        if memory is not None and self.wanted("markers"):
            try:
                self.publish("markers", markers(memory.latest("", _PRESENT, _SHOWN)))
            except NewfoundError as error:
                self._failed(error)

    def health(self) -> Status:
        """Whether the disk works and detections have positions."""
        if self._error:
            return DiagnosticStatus.ERROR, self._error, {}
        problems = [_WITHOUT_POSITIONS] if self._placeless else []
        if self._frame_problem:
            problems.append(self._frame_problem)
        return with_problems(super().health(), problems)

    def diagnose(self) -> Mapping[str, object]:
        """How much is remembered."""
        memory = self.memory
        return {} if memory is None else {"objects": memory.count(), "file": str(memory.path)}


_FOLLOWED = "; the diagnostics of the detector say why"
_FIXED = (
    ": they hold while it stands still. If it moves, set target_frame of the detector, with tf2, "
    "and of this node"
)
_WITHOUT_POSITIONS = (
    "detections have no position: set positions and camera_info_topic of the detector"
)


def _frame_problem(frame: str, wanted: str) -> str:
    """What is wrong with positions in a frame."""
    if wanted:
        return f"positions are in {frame!r}, not in {wanted!r}: nothing is remembered"
    return f"positions are in the frame of the camera, {frame!r}"
