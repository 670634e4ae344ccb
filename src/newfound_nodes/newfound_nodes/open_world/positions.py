# SPDX-License-Identifier: Apache-2.0
"""Positions of detections: the calibration that they need, and their messages."""

import threading

import numpy as np
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Point, Pose, Vector3
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from newfound_core.detection.camera_rays import Calibration
from newfound_core.detection.positions import ObjectLocator, ObjectPosition
from newfound_core.errors import ConfigError
from newfound_msgs import msg
from newfound_nodes.open_world.frame_session import FrameResult, FrameSession
from newfound_nodes.transforms import TargetFrame, quaternion, transformed, vector

_NEAREST, _FARTHEST = 0.05, 20.0  # m: typical depth outside is of another unit
_SAME_ASPECT = 0.01
_KNOWN, _UNKNOWN = (0.16, 0.7, 0.24), (0.94, 0.47, 0.08)  # as in the debug image
_LIFETIME = Duration(sec=2)  # of markers, for a detector that stops


class Positions:
    """Makes a locator of camera_info, and says what keeps positions from being right."""

    def __init__(self, topic: str, target: TargetFrame | None = None) -> None:
        self._topic, self._target = topic, target  # of camera_info; empty if it is not set
        self._info: CameraInfo | None = None
        self._locator: ObjectLocator | None = None
        self._lock = threading.Lock()
        self._problem = ""

    def calibrate(self, message: CameraInfo) -> None:
        """Take the newest calibration."""
        with self._lock:
            same = self._info is not None and _intrinsics(self._info) == _intrinsics(message)
            self._info = message
            if not same:
                self._locator = None

    def locator(self, depth: np.ndarray | None) -> ObjectLocator | None:
        """That for a depth image; None if positions cannot be measured."""
        with self._lock:
            self._problem = ""
            if depth is None:  # reported by the depth input
                return None
            if self._info is None:
                self._problem = _missing(self._topic)
                return None
            self._problem = _unit_problem(depth) or _resolution_problem(self._info, depth)
            if self._problem and "is used" not in self._problem:
                return None
            if self._locator is None:
                try:
                    self._locator = ObjectLocator(calibration(self._info))
                except ConfigError as error:
                    self._problem = f"no positions: {self._topic}: {error}"
            return self._locator

    def add_target(self, message: msg.OpenWorldDetections) -> None:
        """Say how the camera stands in the target frame; also where it sees that nothing is."""
        if self._target is None:
            return
        transform = self._target.transform_from(message.header)
        if transform is not None:
            message.target_frame, message.to_target = self._target.frame, transform

    def problems(self) -> dict[str, str]:
        """What is wrong with positions since the last frame."""
        target = self._target.problem if self._target is not None else ""
        with self._lock:
            found = {"positions": self._problem, "target frame": target}
            return {kind: problem for kind, problem in found.items() if problem}

    def close(self) -> None:
        """Stop listening to transforms."""
        if self._target is not None:
            self._target.close()


def calibration(message: CameraInfo) -> Calibration:
    """What a camera_info says; raises ConfigError if that is no calibration.

    Images are taken as they are, not rectified: K and D. For a rectified image a driver sends
    zero distortion.
    """
    fx, _, cx, _, fy, cy = message.k[:6]
    width, height = _size(message)
    # K is of the full resolution: binning scales it, a region of interest moves its centre.
    binning_x, binning_y = max(1, message.binning_x), max(1, message.binning_y)
    left, top = (message.roi.x_offset, message.roi.y_offset) if message.roi.width else (0, 0)
    plain = not any(message.d)
    return Calibration(
        fx / binning_x / width,
        fy / binning_y / height,
        ((cx - left) / binning_x + 0.5) / width,
        ((cy - top) / binning_y + 0.5) / height,
        "" if plain else message.distortion_model,
        () if plain else tuple(message.d),
    )


def _size(message: CameraInfo) -> tuple[int, int]:
    """Width and height of the images that a camera_info belongs to."""
    roi = message.roi
    width, height = (roi.width, roi.height) if roi.width and roi.height else (
        message.width, message.height)  # fmt: skip
    return max(1, width // max(1, message.binning_x)), max(1, height // max(1, message.binning_y))


def _intrinsics(message: CameraInfo) -> tuple:
    roi = message.roi
    return (
        message.distortion_model, tuple(message.k), tuple(message.d), _size(message),
        roi.x_offset, roi.y_offset,
    )  # fmt: skip


def _missing(topic: str) -> str:
    if not topic:
        return "no positions: camera_info_topic is not set"
    return f"no positions: no camera_info on {topic}"


def _unit_problem(depth: np.ndarray) -> str:
    some = depth[::16, ::16]
    some = some[np.isfinite(some) & (some > 0)]
    typical = float(np.median(some)) if some.size else 1.0
    if _NEAREST <= typical <= _FARTHEST:
        return ""
    return (
        f"no positions: depth is typically {typical:.4g} m, which no camera measures. 16UC1 must "
        "be in millimetres, 32FC1 in metres"
    )


def _resolution_problem(message: CameraInfo, depth: np.ndarray) -> str:
    width, height = _size(message)
    if (height, width) == depth.shape:
        return ""
    both = f"camera_info is of {width}x{height}, depth of {depth.shape[1]}x{depth.shape[0]}"
    if abs(width / height / (depth.shape[1] / depth.shape[0]) - 1) > _SAME_ASPECT:
        return f"no positions: {both}, which is another aspect ratio"
    return f"{both}: the calibration is used in proportion, which is wrong if depth is cropped"


def add_position(message: msg.OpenWorldDetection, found: ObjectPosition | None) -> None:
    """Set the fields of a position."""
    if found is None:
        return
    message.has_position = True
    x, y, z = found.centre.tolist()
    message.pose = Pose(position=Point(x=x, y=y, z=z), orientation=quaternion(found.axes))
    x, y, z = found.size.tolist()
    message.size = Vector3(x=x, y=y, z=z)
    message.position_error = found.error
    message.position_points = found.points
    message.on_support = found.on_support


def placed(message: msg.OpenWorldDetections) -> tuple[Header, list[Pose]]:
    """Poses of the detections that have one: in the target frame if there is one."""
    header = Header(stamp=message.header.stamp, frame_id=message.header.frame_id)
    poses = [each.pose for each in message.detections if each.has_position]
    if message.target_frame:
        header.frame_id = message.target_frame
        poses = [transformed(message.to_target, pose) for pose in poses]
    return header, poses


def note_positions(
    session: FrameSession, message: msg.OpenWorldDetections, result: FrameResult
) -> None:
    """Note where unknown objects are: that tells whether two cameras see the same one."""
    if not message.target_frame:
        return
    pairs = zip(message.detections, result.own_ids, strict=True)
    ids = [unknown_id for each, unknown_id in pairs if each.has_position]
    for unknown_id, pose in zip(ids, placed(message)[1], strict=True):
        if unknown_id:
            session.note_position(unknown_id, message.target_frame, vector(pose.position).tolist())


def markers(message: msg.OpenWorldDetections) -> MarkerArray:
    """Boxes and names for RViz; those of the frame before are deleted."""
    header, poses = placed(message)
    found = [each for each in message.detections if each.has_position]
    shown = [Marker(header=header, action=Marker.DELETEALL)]
    for number, (each, pose) in enumerate(zip(found, poses, strict=True)):
        red, green, blue = _KNOWN if each.label else _UNKNOWN
        box = Marker(header=header, ns="objects", id=number, type=Marker.CUBE, pose=pose)
        box.scale, box.lifetime = each.size, _LIFETIME
        box.color = ColorRGBA(r=red, g=green, b=blue, a=0.5)
        text = Marker(
            header=header, ns="names", id=number, type=Marker.TEXT_VIEW_FACING, pose=pose
        )
        text.text, text.lifetime = each.label or each.unknown_id or "unknown", _LIFETIME
        text.scale.z, text.color = 0.03, ColorRGBA(r=1.0, g=1.0, b=1.0, a=1.0)
        shown += [box, text]
    return MarkerArray(markers=shown)
