# SPDX-License-Identifier: Apache-2.0
import array
import threading
import time

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_msgs.msg import Header

from newfound_core.detection.proposals import CameraView
from newfound_nodes.open_world.depth_input import DepthInput, calibrated
from newfound_runtime.bag_testing import compressed_depth
from newfound_runtime.images import Frame
from newfound_runtime.testing import eventually

NOW = Time(sec=5, nanosec=500_000_000)
TOLERANCE = 0.05


def colour(width=8, height=8, frame_id=""):
    header = Header(stamp=NOW, frame_id=frame_id)
    return Frame(header, np.zeros((height, width, 3), np.uint8), 0.0)


def depth(milliseconds, frame_id=""):
    """An image of so many millimetres everywhere, so many milliseconds after second 5."""
    message = Image(height=4, width=4, encoding="16UC1", step=8)
    message.header.stamp = Time(sec=5, nanosec=milliseconds * 1_000_000)
    message.header.frame_id = frame_id
    message.data = array.array("B", np.full(16, milliseconds, np.uint16).tobytes())
    return message


@pytest.fixture
def camera(ros):
    """Sends depth images, and is sure that they came."""

    class Camera:
        def __init__(self):
            self.input = DepthInput(ros.client, "/depth", "reliable")
            self.input.refresh(True)
            self._publisher = ros.publisher(Image, "/depth")
            ros.connected(self._publisher)

        def send(self, *moments, frame_id=""):
            for moment in moments:
                before = self.input.counters.received
                self._publisher.publish(depth(moment, frame_id))
                eventually(lambda b=before: self.input.counters.received > b)

        def at(self, timeout):
            """The moment of the depth found for second 5.5, in ms."""
            found = self.input.of(colour(), TOLERANCE, timeout)
            return None if found is None else round(1000 * float(found[0, 0]))

    camera = Camera()
    yield camera
    camera.input.close()


def test_the_depth_of_the_moment_is_waited_for_though_the_last_one_is_near(camera):
    camera.send(433, 467)
    timer = threading.Timer(0.2, camera.send, [500])
    timer.start()
    assert camera.at(timeout=60.0) == 500
    timer.join()


def test_after_the_timeout_the_nearest_depth_is_taken(camera):
    camera.send(433, 467)
    assert camera.at(timeout=0.1) == 467


@pytest.mark.parametrize(("moments", "found"), [((433, 490, 523), 490), ((433, 900), None)])
def test_once_depth_has_passed_the_moment_nothing_is_waited_for(camera, moments, found):
    camera.send(*moments)
    began = time.monotonic()
    assert camera.at(timeout=60.0) == found
    assert time.monotonic() - began < 30


def test_depth_of_a_recording_that_begins_again_is_waited_for(camera):
    camera.send(900, 933, 100)
    timer = threading.Timer(0.2, camera.send, [500])
    timer.start()
    assert camera.at(timeout=60.0) == 500
    timer.join()


def test_many_frames_without_depth_are_a_problem_and_few_are_not(camera):
    for _ in range(4):
        camera.at(timeout=0.0)
    assert camera.input.problems() == []
    camera.at(timeout=0.0)
    assert camera.input.problems() == ["no depth on /depth: 5 of the last 5 frames without depth"]
    camera.send(100)
    camera.at(timeout=0.0)
    assert camera.input.problems() == ["6 of the last 6 frames without depth"]
    camera.send(500)
    for _ in range(26):
        assert camera.at(timeout=0.0) == 500
    assert camera.input.problems() == []


def test_depth_of_another_aspect_ratio_is_warned_about(camera):
    camera.send(500)
    assert camera.input.of(colour(16, 9), TOLERANCE, 0.0) is not None
    assert "4x4 has another aspect ratio than colour of 16x9" in str(camera.input.problems())
    camera.input.of(colour(640, 640), TOLERANCE, 0.0)
    assert camera.input.problems() == []


def test_depth_in_another_frame_is_warned_about(camera):
    camera.send(500, frame_id="depth_optical")
    camera.input.of(colour(frame_id="colour_optical"), TOLERANCE, 0.0)
    assert "in the frame 'depth_optical', colour in 'colour_optical'" in str(
        camera.input.problems()
    )


def test_camera_info_gives_the_focal_lengths_whatever_the_resolution():
    known = CameraView(up=(0, -1, 0))
    k = [525.0, 0, 319.5, 0, 500, 239.5, 0, 0, 1]
    view = calibrated(known, CameraInfo(width=640, height=480, k=k))
    assert (view.focal_x, view.focal_y) == (525 / 640, 500 / 640)
    assert (view.centre_x, view.centre_y, view.up) == (0.5, 0.5, (0, -1, 0))
    assert calibrated(known, CameraInfo(width=640, height=480)) is None
    assert calibrated(known, CameraInfo(k=k)) is None


def eventually_array(source):
    found = []
    eventually(lambda: found.append(source.of(colour(), TOLERANCE, 0.1)) or found[-1] is not None)
    return found[-1]


def test_depth_may_come_compressed(ros):
    source = DepthInput(ros.client, "/depth", "reliable", "compressedDepth")
    source.refresh(True)
    publisher = ros.publisher(CompressedImage, "/depth/compressedDepth")
    ros.connected(publisher)
    stamp = 5 * 10**9 + 500_000_000
    for values in (np.full((4, 4), 1234, np.uint16), np.full((4, 4), 1.234, np.float32)):
        publisher.publish(compressed_depth(stamp, values))
        found = eventually_array(source)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, 1.234, atol=2e-3)
        source._recent.clear()
    source.close()
