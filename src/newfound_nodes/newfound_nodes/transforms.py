# SPDX-License-Identifier: Apache-2.0
"""Poses in another frame, by tf2 where it is installed."""

from typing import Any

import numpy as np
from geometry_msgs.msg import Point, Pose, Quaternion, Transform, Vector3
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.time import Time
from std_msgs.msg import Header

try:
    import tf2_ros
except ImportError:
    tf2_ros = None

TIMEOUT = 0.1  # s that a transform of the newest image is waited for


class TargetFrame:
    """Finds the transform from the frames of images to one that is fixed, such as `map`."""

    def __init__(self, node: Node, frame: str, max_age: float, buffer: Any = None) -> None:
        """`max_age`: seconds by which a transform may be older than an image.

        `buffer` is a tf2_ros.Buffer; without one it is made, and fed from /tf.
        """
        self.frame, self.max_age = frame, max_age
        self.problem = ""  # why there is no transform; empty if the last one was found
        self._listener = None
        if buffer is None and tf2_ros is not None:
            buffer = tf2_ros.Buffer()
            self._listener = tf2_ros.TransformListener(buffer, node)
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
        """From the frame of an image at its time; None, and `problem` says why."""
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
