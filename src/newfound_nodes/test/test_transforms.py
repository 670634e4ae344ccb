# SPDX-License-Identifier: Apache-2.0
"""With a buffer that has the methods and exceptions of tf2_ros, which is not on PyPI.

Where the real one is installed, it is tried, too.
"""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
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
from rclpy.time import Time
from std_msgs.msg import Header

from newfound_nodes import transforms
from newfound_nodes.transforms import (
    PosedFrame,
    RewindingBuffer,
    TfFrame,
    quaternion,
    rotation_matrix,
    transformed,
)
from newfound_runtime.testing import eventually


class TransformException(Exception):  # noqa: N818
    """tf2_ros.TransformException."""


class LookupException(TransformException):
    """tf2_ros.LookupException."""


class ExtrapolationException(TransformException):
    """tf2_ros.ExtrapolationException."""


class Buffer:
    """tf2_ros.Buffer that knows camera -> map at some seconds."""

    def __init__(self, *seconds):
        self.seconds, self.timeouts, self.cleared = list(seconds), [], 0

    def clear(self):
        self.cleared += 1

    def set_transform(self, transform, authority):
        self.seconds.append(transform.header.stamp.sec)

    def lookup_transform(self, target_frame, source_frame, time, timeout=Duration()):  # noqa: B008
        self.timeouts.append(timeout.nanoseconds)
        if (target_frame, source_frame) != ("map", "camera") or not self.seconds:
            raise LookupException(f'"{source_frame}" passed to lookupTransform does not exist.')
        wanted = time.nanoseconds * 1e-9 or self.seconds[-1]
        if not self.seconds[0] <= wanted <= self.seconds[-1]:
            raise ExtrapolationException("Lookup would require extrapolation into the future.")
        found = TransformStamped(header=Header(stamp=Time(seconds=wanted).to_msg()))
        found.transform.translation.x = wanted
        found.transform.rotation.w = 1.0
        return found


REAL = transforms.tf2_ros


@pytest.fixture(autouse=True)
def tf2(monkeypatch):
    module = SimpleNamespace(
        TransformException=TransformException,
        LookupException=LookupException,
        ExtrapolationException=ExtrapolationException,
    )
    monkeypatch.setattr(transforms, "tf2_ros", module)


def header(seconds, frame="camera"):
    return Header(stamp=Time(seconds=seconds).to_msg(), frame_id=frame)


def test_the_transform_is_that_of_the_time_of_the_image():
    target = TfFrame(None, "map", 0.1, Buffer(5, 9))
    assert target.transform_from(header(7)).translation.x == pytest.approx(7)
    assert target.problem == ""
    assert target.transform_from(header(7, "map")) == Transform()


def test_a_transform_that_is_a_little_older_than_the_image_is_used():
    target = TfFrame(None, "map", 0.1, Buffer(5, 9))
    assert target.transform_from(header(9.05)).translation.x == pytest.approx(9)
    assert target.problem == ""


def test_an_old_transform_is_refused_with_its_age():
    target = TfFrame(None, "map", 0.1, Buffer(5, 9))
    assert target.transform_from(header(10.5)) is None
    assert "1.50 s older than the image" in target.problem
    assert "transform_tolerance" in target.problem


def test_a_missing_frame_is_named_and_waited_for_only_once():
    buffer = Buffer()
    target = TfFrame(None, "map", 0.1, buffer)
    for _ in range(3):
        assert target.transform_from(header(7)) is None
    assert "no transform from 'camera' to 'map'" in target.problem
    assert "does not exist" in target.problem
    assert [timeout > 0 for timeout in buffer.timeouts] == [True, False, False]
    buffer.seconds = [5, 9]
    assert target.transform_from(header(7)) is not None
    assert target.problem == ""


def test_images_without_a_frame_are_said_to_have_none():
    target = TfFrame(None, "map", 0.1, Buffer(5, 9))
    assert target.transform_from(header(7, "")) is None
    assert "no frame_id" in target.problem


def test_without_tf2_the_camera_frame_is_all_there_is(monkeypatch):
    monkeypatch.setattr(transforms, "tf2_ros", None)
    target = TfFrame(None, "map", 0.1)
    assert target.transform_from(header(7)) is None
    assert "tf2_ros is not installed" in target.problem
    target.close()


def test_the_buffer_is_cleared_when_a_bag_begins_anew():
    buffer = Buffer()
    rewinding = RewindingBuffer(buffer)
    # A late transform of the end of the loop comes after the first one of the next.
    for seconds, frame, cleared in (
        (100, "camera", 0),
        (122, "camera", 0),
        (121, "camera", 0),
        (100, "odom", 0),
        (100, "camera", 1),
        (122, "camera", 1),
        (101, "camera", 2),
        (101, "odom", 2),
    ):
        rewinding.set_transform(
            TransformStamped(header=header(seconds, "map"), child_frame_id=frame), "test"
        )
        assert buffer.cleared == cleared, seconds
        assert buffer.seconds[-1] == seconds


@pytest.mark.skipif(REAL is None, reason="tf2_ros comes only with a ROS installation")
def test_with_the_real_tf2_transforms_are_found_again_when_a_bag_begins_anew(ros, monkeypatch):
    monkeypatch.setattr(transforms, "tf2_ros", REAL)
    target, broadcaster = TfFrame(ros.client, "map", 0.1), REAL.TransformBroadcaster(ros.client)
    ros.connected(broadcaster.pub_tf)
    for seconds in (100, 111, 122, 100, 101):  # more than the 10 s that a buffer keeps

        def tell(seconds=seconds):
            sent = TransformStamped(header=header(seconds, "map"), child_frame_id="camera")
            sent.transform.translation.x, sent.transform.rotation.w = float(seconds), 1.0
            broadcaster.sendTransform(sent)
            return target.transform_from(header(seconds))

        assert eventually(tell, "a transform", 20.0).translation.x == seconds
    target.close()


@pytest.fixture
def posed(ros):
    """Poses of a real topic, and a function that publishes one."""
    target = PosedFrame(ros.client, "/camera_pose", "map", 0.1)
    publisher = ros.publisher(PoseStamped, "/camera_pose")
    ros.connected(publisher)

    def publish(seconds, frame="map"):
        message = PoseStamped(header=header(seconds, frame))
        message.pose = Pose(position=Point(x=float(seconds)), orientation=Quaternion(z=1.0))
        before = len(target._poses)
        publisher.publish(message)
        eventually(lambda: len(target._poses) == before + 1)

    yield target, publish
    target.close()
    eventually(lambda: publisher.get_subscription_count() == 0, "unsubscribed")


def test_the_pose_nearest_to_the_image_says_how_the_camera_stands(posed):
    target, publish = posed
    assert target.transform_from(header(7)) is None
    assert target.problem == "no pose of the camera on /camera_pose"
    for seconds in (6.9, 7, 7.08):
        publish(seconds)
    for seconds, expected in ((7, 7), (7.03, 7), (7.15, 7.08), (6.85, 6.9)):
        found = target.transform_from(header(seconds))
        assert (found.translation.x, found.rotation.z) == (pytest.approx(expected), 1)
        assert target.problem == ""
    assert target.transform_from(header(8)) is None
    assert "0.92 s from the image; transform_tolerance is 0.1 s" in target.problem


def test_a_pose_that_comes_a_little_later_than_its_image_is_waited_for(posed, monkeypatch):
    monkeypatch.setattr(transforms, "TIMEOUT", 30.0)
    target, publish = posed
    publish(6.95)
    later = threading.Timer(0.1, publish, (7,))
    later.start()
    assert target.transform_from(header(7)).translation.x == 7
    later.join()


def test_poses_in_another_frame_are_refused(posed):
    target, publish = posed
    publish(7, "odom")
    assert target.transform_from(header(7)) is None
    assert "are in the frame 'odom', not in 'map'" in target.problem


def test_quaternions_are_those_of_their_matrices():
    rng = np.random.default_rng(0)
    half_turns = [np.diag(d) for d in ([1, -1, -1], [-1, 1, -1], [-1, -1, 1], [1, 1, 1])]
    turns = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(50)]
    for matrix in half_turns + [turn * np.linalg.det(turn) for turn in turns]:
        np.testing.assert_allclose(rotation_matrix(quaternion(matrix)), matrix, atol=1e-12)


def test_a_pose_is_turned_and_moved():
    quarter = Quaternion(z=np.sqrt(0.5), w=np.sqrt(0.5))  # about z
    transform = Transform(translation=Vector3(x=1.0, z=2.0), rotation=quarter)
    found = transformed(transform, Pose(position=Point(x=1.0, y=0.5), orientation=quarter))
    place = (found.position.x, found.position.y, found.position.z)
    assert place == pytest.approx((0.5, 1.0, 2.0))
    np.testing.assert_allclose(
        rotation_matrix(found.orientation), np.diag([-1, -1, 1]), atol=1e-12
    )
