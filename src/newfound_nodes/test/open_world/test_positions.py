# SPDX-License-Identifier: Apache-2.0
import array
import time

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import CameraInfo, Image, RegionOfInterest
from std_msgs.msg import Header
from visualization_msgs.msg import Marker, MarkerArray

from newfound_msgs.msg import OpenWorldDetections
from newfound_nodes import transforms
from newfound_nodes.open_world.node import OpenWorldDetector
from newfound_nodes.open_world.positions import Positions, calibration
from newfound_runtime.testing import UNCONFIGURED, eventually, image

NODE = "/open_world_detector"
K = [262.5, 0.0, 159.5, 0.0, 262.5, 119.5, 0.0, 0.0, 1.0]  # of 320 x 240


def camera_info(**changes):
    values = {"width": 320, "height": 240, "k": K, "distortion_model": "plumb_bob", "d": [0.0] * 5}
    return CameraInfo(**values | changes)


def flat(metres=1.0, height=240, width=320):
    return np.full((height, width), metres, np.float32)


def table():
    """Depth of a table 1 m away in the middle of the image, with a box of 12 x 8 x 6 cm on it."""
    v, u = np.mgrid[:240, :320]
    x, y = (u - 159.5) / 262.5, (v - 119.5) / 262.5
    c = s = np.sqrt(0.5)  # the camera looks down by 45 degrees, 0.71 m above the table
    down, ahead = y * c + s, c - y * s
    depth = s / down
    top, front = (s - 0.06) / down, (c - 0.04) / ahead
    on_top = (np.abs(x * top) < 0.06) & (np.abs(ahead * top - c) < 0.04)
    on_front = (np.abs(x * front) < 0.06) & (down * front < s) & (down * front > s - 0.06)
    depth = np.where(on_top, top, np.where(on_front, front, depth))
    return depth.astype(np.float32)


@pytest.fixture
def parameters(tmp_path, shipped):
    return {
        "checkpoint": str(shipped),
        "knowledge_base": str(tmp_path / "base"),
        "proposer": "depth",
        "depth_topic": "/depth",
        "camera_info_topic": "/info",
        "depth_timeout": 5.0,
    }


class Camera:
    """Sends colour, depth and calibration until a message answers."""

    def __init__(self, ros, depth):
        self.colour, self.depth_topic = (
            ros.publisher(Image, "/image"),
            ros.publisher(Image, "/depth"),
        )
        self.info, self.depth, self.number = ros.publisher(CameraInfo, "/info"), depth, 0

    def send(self, info=None):
        self.number += 1
        message = image(320, 240, self.number)
        message.header.frame_id = "camera"
        depth = Image(header=message.header, height=240, width=320, encoding="32FC1", step=1280)
        depth.data = array.array("B", self.depth.tobytes())
        self.info.publish(info or camera_info())
        self.depth_topic.publish(depth)
        self.colour.publish(message)

    def until(self, condition, what, **message):
        def attempt():
            self.send(**message)
            time.sleep(0.05)
            return condition()

        return eventually(attempt, what)


def test_detections_and_markers_say_where_a_box_on_a_table_is(ros, parameters):
    ros.started(OpenWorldDetector, **parameters)
    detections = ros.collect(OpenWorldDetections, f"{NODE}/detections")
    shown = ros.collect(MarkerArray, f"{NODE}/markers")
    camera = Camera(ros, table())
    camera.until(lambda: shown and len(shown[-1].markers) == 3, "markers")
    found = eventually(
        lambda: next(
            (m for m in detections if m.detections and m.detections[0].has_position), None
        )
    )
    [box] = found.detections
    # Its middle is 3 cm above the table, at the axis of the camera.
    truth = np.array([0, -0.03 * np.sqrt(0.5), 1 - 0.03 * np.sqrt(0.5)])
    place = np.array([box.pose.position.x, box.pose.position.y, box.pose.position.z])
    np.testing.assert_allclose(place, truth, atol=0.01)
    assert (box.size.x, box.size.y, box.size.z) == pytest.approx((0.12, 0.08, 0.06), abs=0.01)
    assert box.on_support
    assert 0 < box.position_error < 0.05
    assert box.position_points > 100
    wipe, cube, text = shown[-1].markers
    assert (wipe.action, cube.type, text.type) == (
        Marker.DELETEALL, Marker.CUBE, Marker.TEXT_VIEW_FACING
    )  # fmt: skip
    assert cube.header.frame_id == "camera"


def test_nothing_is_measured_unless_it_is_wanted(ros, parameters):
    node = ros.started(OpenWorldDetector, **parameters)
    detections = ros.collect(OpenWorldDetections, f"{NODE}/detections")
    camera = Camera(ros, table())
    camera.until(lambda: detections and detections[-1].detections, "detections")
    assert not any(each.has_position for m in detections for each in m.detections)
    ros.set(NODE, positions=True)
    camera.until(lambda: detections[-1].detections[0].has_position, "positions")
    assert node._detector.locator is not None


def test_poses_are_in_the_target_frame_where_it_is_known(ros, parameters):
    ros.started(
        OpenWorldDetector, **parameters, target_frame="map", camera_pose_topic="/camera_pose"
    )
    poses = ros.publisher(PoseStamped, "/camera_pose")
    ros.connected(poses)
    pose = PoseStamped(header=Header(frame_id="map"))
    pose.pose.position.x = 10.0
    detections = ros.collect(OpenWorldDetections, f"{NODE}/detections")
    shown = ros.collect(MarkerArray, f"{NODE}/markers")
    camera = Camera(ros, table())

    def in_the_map():
        pose.header.stamp.sec = camera.number + 1  # of the next image
        poses.publish(pose)
        return shown and len(shown[-1].markers) == 3 and shown[-1].markers[1].header.frame_id

    camera.until(lambda: in_the_map() == "map", "markers")
    cube = next(m for m in reversed(shown) if len(m.markers) == 3).markers[1]
    assert cube.pose.position.x == pytest.approx(10, abs=0.01)
    placed = eventually(
        lambda: next((m for m in detections if m.target_frame and m.detections), None)
    )
    assert placed.detections[0].pose.position.x == pytest.approx(0, abs=0.01)
    assert (placed.target_frame, placed.to_target.translation.x) == ("map", 10.0)


def test_poses_of_the_camera_without_their_frame_leave_the_node_unconfigured(ros, parameters):
    node = ros.add(OpenWorldDetector, **parameters, camera_pose_topic="/camera_pose")
    eventually(lambda: "needs target_frame" in node.last_error, "the reason")
    assert node.state() == UNCONFIGURED
    assert ros.set(NODE, target_frame="map").successful
    assert ros.change(NODE, "configure")


def test_a_calibration_that_does_not_fit_is_said_in_log_and_diagnostics(
    ros, parameters, monkeypatch
):
    monkeypatch.setattr(transforms, "tf2_ros", None)  # a robot has it
    ros.started(OpenWorldDetector, **parameters, positions=True, target_frame="map")
    ros.collect(OpenWorldDetections, f"{NODE}/detections")
    diagnostics = ros.diagnostics(NODE)
    camera = Camera(ros, table())
    other = camera_info(width=320, height=180)

    def warned():
        status = diagnostics()
        return status is not None and "another aspect ratio" in status.message

    camera.until(warned, "diagnostics", info=other)
    assert ros.logged("no positions: ")
    assert ros.logged("tf2_ros is not installed")


def test_a_calibration_that_has_not_come_is_missed():
    assert Positions("").locator(flat()) is None
    for topic, problem in (("", "camera_info_topic is not set"), ("/info", "no camera_info on")):
        positions = Positions(topic)
        assert positions.locator(None) is None
        assert positions.problems() == {}
        assert positions.locator(flat()) is None
        assert problem in positions.problems()["positions"]
    positions.calibrate(camera_info())
    assert positions.locator(flat()) is not None
    assert positions.problems() == {}


@pytest.mark.parametrize("metres", [850.0, 0.0008])
def test_depth_of_another_unit_is_noticed(metres):
    positions = Positions("/info")
    positions.calibrate(camera_info())
    assert positions.locator(flat(metres)) is None
    assert "16UC1 must be in millimetres" in positions.problems()["positions"]


def test_a_calibration_of_another_resolution_is_scaled_or_refused():
    positions = Positions("/info")
    positions.calibrate(camera_info())
    assert positions.locator(flat(1.0, 480, 640)) is not None
    assert "320x240, depth of 640x480" in positions.problems()["positions"]
    assert positions.locator(flat(1.0, 360, 640)) is None
    assert "another aspect ratio" in positions.problems()["positions"]


def test_a_distortion_model_that_is_not_known_is_said():
    positions = Positions("/info")
    positions.calibrate(camera_info(distortion_model="barrel", d=[0.1]))
    assert positions.locator(flat()) is None
    assert "'barrel' is not known" in positions.problems()["positions"]


def test_a_locator_is_kept_until_the_calibration_changes():
    positions = Positions("/info")
    positions.calibrate(camera_info())
    first = positions.locator(flat())
    positions.calibrate(camera_info())
    assert positions.locator(flat()) is first
    positions.calibrate(camera_info(k=[300.0, *K[1:]]))
    assert positions.locator(flat()) is not first


def test_binning_and_a_region_of_interest_change_the_calibration():
    roi = RegionOfInterest(x_offset=40, y_offset=20, width=200, height=160)
    found = calibration(camera_info(binning_x=2, binning_y=2, roi=roi))
    assert found.focal_x * 100 == pytest.approx(262.5 / 2)
    assert found.focal_y * 80 == pytest.approx(262.5 / 2)
    assert found.centre_x * 100 - 0.5 == pytest.approx((159.5 - 40) / 2)
    assert found.centre_y * 80 - 0.5 == pytest.approx((119.5 - 20) / 2)
