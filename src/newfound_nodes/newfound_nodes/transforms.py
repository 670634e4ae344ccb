# SPDX-License-Identifier: Apache-2.0
"""Poses in another frame, by tf2 where it is installed, or by a topic with the camera's pose."""

import threading
from collections import deque
from typing import Any, Protocol

import numpy as np
from geometry_msgs.msg import (
    Point,
    Pose,
    PoseStamped,
    Quaternion,
    Transform,
    TransformStamped,
    Vector3,
)
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.time import Time
from std_msgs.msg import Header

try:
    import tf2_ros
except ImportError:
    tf2_ros = None

TIMEOUT = 0.1  # s that a transform of the newest image is waited for
_POSES = 100  # of the camera that are kept
_HELD = 10  # s that a tf2_ros.Buffer keeps


class TargetFrame(Protocol):
    """A frame that is fixed, such as `map`, and how cameras stand in it."""

    frame: str
    problem: str  # why there is no transform; empty if the last one was found

    def transform_from(self, header: Header) -> Transform | None:
        """From the frame of an image at its time; None, and `problem` says why."""

    def close(self) -> None:
        """Unsubscribe."""


class TfFrame:
    """Looks transforms up in /tf."""

    def __init__(self, node: Node, frame: str, max_age: float, buffer: Any = None) -> None:
        """`max_age`: seconds by which a transform may be older than an image.

        `buffer` is a tf2_ros.Buffer; without one it is made, and fed from /tf.
        """
        self.frame, self.max_age = frame, max_age
        self.problem = ""
        self._listener = None
        if buffer is None and tf2_ros is not None:
            buffer = tf2_ros.Buffer()
            self._listener = tf2_ros.TransformListener(RewindingBuffer(buffer), node)
        self._buffer = buffer
        if buffer is None:
            self.problem = (
                f"target_frame is {frame!r}, but tf2_ros is not installed: positions are in the "
                "frame of the camera only"
            )

    def close(self) -> None:
        """Unsubscribe from /tf."""
        if self._listener is not None:
            self._listener.unregister()
        self._listener = self._buffer = None

    def transform_from(self, header: Header) -> Transform | None:
        """By tf2."""
        if self._buffer is None:
            return None
        if header.frame_id == self.frame:
            self.problem = ""
            return Transform(rotation=Quaternion(w=1.0))
        if not header.frame_id:
            self.problem = "images have no frame_id: their transform cannot be looked up"
            return None
        # What was missing a frame ago is not waited for, or every frame would be late by it.
        timeout = Duration(seconds=0.0 if self.problem else TIMEOUT)
        found = None
        try:
            found = self._lookup(header, Time.from_msg(header.stamp), timeout)
            self.problem = ""
        except tf2_ros.ExtrapolationException as error:
            found = self._newest(header, error)
        except tf2_ros.TransformException as error:
            self.problem = f"no transform from {header.frame_id!r} to {self.frame!r}: {error}"
        return found

    def _newest(self, header: Header, error: Exception) -> Transform | None:
        """The newest transform, if it is not too old for the image."""
        try:
            newest = self._buffer.lookup_transform(self.frame, header.frame_id, Time(), Duration())
        except tf2_ros.TransformException:
            self.problem = f"no transform from {header.frame_id!r} to {self.frame!r}: {error}"
            return None
        wanted = Time.from_msg(header.stamp)
        age = (wanted - Time.from_msg(newest.header.stamp)).nanoseconds * 1e-9
        if abs(age) > self.max_age:
            order = "older" if age > 0 else "newer"
            self.problem = (
                f"the newest transform from {header.frame_id!r} to {self.frame!r} is "
                f"{abs(age):.2f} s {order} than the image; transform_tolerance is {self.max_age} s"
            )
            return None
        self.problem = ""
        return newest.transform

    def _lookup(self, header: Header, stamp: Time, timeout: Duration) -> Transform:
        found = self._buffer.lookup_transform(self.frame, header.frame_id, stamp, timeout)
        return found.transform


class RewindingBuffer:
    """What a tf2_ros.TransformListener fills: a buffer that is cleared when a bag begins anew.

    A buffer refuses transforms that are older than all it keeps: of a bag that is played in a
    loop, all but those of the last seconds. tf2's own answer, a callback of the clock, comes
    before transforms of the last loop that are still under way.
    """

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        self._newest: dict[str, int] = {}  # stamp (ns) by frame

    def set_transform(self, transform: TransformStamped, authority: str) -> None:
        """Take a transform of /tf."""
        frame, stamp = transform.child_frame_id, _nanoseconds(transform.header)
        newest = self._newest.get(frame, stamp)
        if stamp < newest - _HELD * 10**9:
            self._buffer.clear()
            self._newest, newest = {}, stamp
        self._newest[frame] = max(stamp, newest)
        self._buffer.set_transform(transform, authority)

    def set_transform_static(self, transform: TransformStamped, authority: str) -> None:
        """Take a transform of /tf_static, which holds at any time."""
        self._buffer.set_transform_static(transform, authority)


class PosedFrame:
    """Takes the camera's poses from a topic: of a robot without tf2, of the simulator."""

    def __init__(self, node: Node, topic: str, frame: str, max_age: float) -> None:
        """`max_age`: seconds between an image and the pose nearest in time that is used."""
        self.frame, self.max_age, self.problem = frame, max_age, ""
        self._node, self._topic = node, topic
        self._poses: deque[PoseStamped] = deque(maxlen=_POSES)
        self._arrived = threading.Condition()
        self._subscription = node.create_subscription(PoseStamped, topic, self._take, _POSES)

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)

    def transform_from(self, header: Header) -> Transform | None:
        """By the pose that is nearest in time."""
        wanted = _nanoseconds(header)
        with self._arrived:
            if not self.problem:  # what was missing a frame ago is not waited for
                self._arrived.wait_for(lambda: self._has_come(wanted), TIMEOUT)
            nearest = min(
                self._poses, key=lambda p: abs(_nanoseconds(p.header) - wanted), default=None
            )
        self.problem = self._problem_of(nearest, wanted)
        if nearest is None or self.problem:
            return None
        at, turn = nearest.pose.position, nearest.pose.orientation
        return Transform(translation=Vector3(x=at.x, y=at.y, z=at.z), rotation=turn)

    def _take(self, message: PoseStamped) -> None:
        with self._arrived:
            self._poses.append(message)
            self._arrived.notify_all()

    def _has_come(self, wanted: int) -> bool:
        return bool(self._poses) and _nanoseconds(self._poses[-1].header) >= wanted

    def _problem_of(self, nearest: PoseStamped | None, wanted: int) -> str:
        if nearest is None:
            return f"no pose of the camera on {self._topic}"
        if nearest.header.frame_id != self.frame:
            return (
                f"poses on {self._topic} are in the frame {nearest.header.frame_id!r}, not in "
                f"{self.frame!r}"
            )
        apart = abs(_nanoseconds(nearest.header) - wanted) * 1e-9
        if apart > self.max_age:
            return (
                f"the nearest pose on {self._topic} is {apart:.2f} s from the image; "
                f"transform_tolerance is {self.max_age} s"
            )
        return ""


def _nanoseconds(header: Header) -> int:
    return header.stamp.sec * 10**9 + header.stamp.nanosec


def rotation_matrix(q: Quaternion) -> np.ndarray:
    """Of a unit quaternion, float64 [3, 3]."""
    x, y, z, w = q.x, q.y, q.z, q.w
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion(matrix: np.ndarray) -> Quaternion:
    """Of a rotation matrix [3, 3]: by its largest component (S. W. Shepperd, 1978)."""
    m = np.asarray(matrix, np.float64)
    trace = float(np.trace(m))
    squares = 1 + np.array([*(2 * np.diag(m) - trace), trace])  # 4 x^2, 4 y^2, 4 z^2, 4 w^2
    big = int(squares.argmax())
    if big == 3:
        q = np.array([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], squares[3]])
    else:
        i, j, k = big, (big + 1) % 3, (big + 2) % 3
        q = np.empty(4)
        q[i], q[j], q[k] = squares[i], m[j, i] + m[i, j], m[k, i] + m[i, k]
        q[3] = m[k, j] - m[j, k]
    x, y, z, w = (q / np.linalg.norm(q)).tolist()
    return Quaternion(x=x, y=y, z=z, w=w)


def transformed(transform: Transform, pose: Pose) -> Pose:
    """A pose in the frame that a transform leads to."""
    turn, shift = rotation_matrix(transform.rotation), vector(transform.translation)
    place = (turn @ vector(pose.position) + shift).tolist()
    return Pose(
        position=Point(x=place[0], y=place[1], z=place[2]),
        orientation=quaternion(turn @ rotation_matrix(pose.orientation)),
    )


def vector(message: Point | Vector3) -> np.ndarray:
    """Float64 [3]."""
    return np.array([message.x, message.y, message.z])
