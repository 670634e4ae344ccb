# SPDX-License-Identifier: Apache-2.0
"""The real node over DDS; the detector's messages are made here."""

import os
import resource
import signal
import time

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Point, Pose, Quaternion, Transform, Vector3
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, RegionOfInterest
from std_msgs.msg import Header
from visualization_msgs.msg import Marker, MarkerArray

from newfound_msgs.msg import OpenWorldDetection, OpenWorldDetections, UnknownObject
from newfound_msgs.srv import FindObject, ForgetObject, ListObjects
from newfound_nodes.object_memory.node import ObjectMemoryNode
from newfound_runtime.bag_testing import compressed, compressed_depth
from newfound_runtime.images import decode_file, depth_message, rgb_message
from newfound_runtime.testing import UNCONFIGURED, eventually

NODE = "/object_memory"
K = [262.5, 0.0, 159.5, 0.0, 262.5, 119.5, 0.0, 0.0, 1.0]


def found(label="", x=0.0, y=0.0, z=1.0, unknown_id="", score=0.9):
    return OpenWorldDetection(
        label=label, unknown_id=unknown_id, score=score, has_position=True, position_error=0.01,
        pose=Pose(position=Point(x=x, y=y, z=z), orientation=Quaternion(w=1.0)),
        size=Vector3(x=0.1, y=0.08, z=0.1), position_points=100, on_support=True,
        region=RegionOfInterest(x_offset=140, y_offset=100, width=40, height=40),
    )  # fmt: skip


class Robot:
    """What a detector and a camera publish, and the services of the memory."""

    def __init__(self, ros, camera="", *, compressed=False):
        self.ros, self.second, self.camera, self.compressed = ros, 10, camera, compressed
        detector = f"{camera}/open_world_detector"
        self.detections = ros.publisher(OpenWorldDetections, f"{detector}/detections")
        self.unknowns = ros.publisher(UnknownObject, f"{detector}/unknowns")
        kind, topics = Image, ("depth", "image")
        if compressed:
            kind, topics = CompressedImage, ("depth/compressedDepth", "image/compressed")
        self.depth, self.image = (ros.publisher(kind, f"{camera}/{t}") for t in topics)
        self.info = ros.publisher(CameraInfo, f"{camera}/camera_info")
        for publisher in (self.detections, self.unknowns, self.depth, self.image, self.info):
            ros.connected(publisher)
        self.info.publish(CameraInfo(width=320, height=240, k=K))

    def see(self, *detections, depth=None, target=None):
        self.second += 1
        frame = f"{self.camera.strip('/') or 'camera'}_optical"
        header = Header(stamp=Time(sec=self.second), frame_id=frame)
        if depth is not None:
            pixels = np.full((240, 320), depth, np.float32)
            rgb = np.full((240, 320, 3), (200, 40, 40), np.uint8)
            if self.compressed:
                stamp = self.second * 10**9
                self.depth.publish(compressed_depth(stamp, pixels))
                self.image.publish(compressed(stamp, rgb))
            else:
                self.depth.publish(depth_message(header, pixels))
                self.image.publish(rgb_message(header, rgb))
            time.sleep(0.1)  # another topic: no order is promised
        message = OpenWorldDetections(header=header, detections=list(detections))
        if target is not None:
            message.target_frame = "map"
            message.to_target = Transform(
                translation=Vector3(x=target), rotation=Quaternion(w=1.0)
            )
        self.detections.publish(message)

    def ask(self, kind, name, **request):
        return self.ros.call(kind, f"{NODE}/{name}", kind.Request(**request))

    def find(self, label, **request):
        return self.ask(FindObject, "find_object", label=label, **request).objects

    def finds(self, label, check=lambda objects: objects):
        def asked():
            objects = self.find(label)
            return objects if check(objects) else None

        return eventually(asked, f"{label} as expected")


@pytest.fixture
def parameters(tmp_path):
    return {"database": str(tmp_path / "objects.db")}


@pytest.fixture
def robot(ros, parameters):
    ros.started(ObjectMemoryNode, **parameters)
    return Robot(ros)


@pytest.fixture(params=["raw", "compressed"])
def any_robot(request, ros, parameters):
    """One whose images and depth are compressed, and one where they are not."""
    if request.param == "compressed":
        parameters |= {"image_transport": "compressed", "depth_transport": "compressedDepth"}
    ros.started(ObjectMemoryNode, **parameters)
    return Robot(ros, compressed=request.param == "compressed")


def test_where_is_the_mug(robot):
    robot.see(found("mug", 0.2), found("bowl", -0.2), target=5.0)
    robot.see(found("mug", 0.21), found("bowl", -0.2), target=5.0)
    [mug] = robot.finds("Mug", lambda o: o and o[0].sightings == 2)
    assert mug.header.frame_id == "map"
    assert mug.pose.position.x == pytest.approx(5.205, abs=0.006)
    assert (mug.first_seen.sec, mug.last_seen.sec) == (11, 12)
    assert mug.camera == "camera_optical"
    answer = robot.ask(FindObject, "find_object", label="mug")
    assert answer.message.startswith("mug: (5.2")
    nothing = robot.ask(FindObject, "find_object", label="piano")
    assert (nothing.result, nothing.objects) == (FindObject.Response.RESULT_NOTHING_FOUND, [])


def test_what_is_near_a_place_is_listed_and_can_be_forgotten(robot):
    robot.see(found("mug", 0.2), found("", -0.3, unknown_id="u1"), target=0.0)
    robot.finds("mug")
    request = {"frame_id": "map", "centre": Point(x=-0.2, z=1.0), "radius": 0.45}
    near = robot.ask(ListObjects, "list_objects", **request).objects
    assert [each.label for each in near] == ["", "mug"]
    assert near[0].unknown_id == "u1"
    for bad in ("o99", "", "o1; DROP TABLE objects", "o" + 30 * "1"):
        assert robot.ask(ForgetObject, "forget_object", id=bad).result == 13
    assert robot.ask(ForgetObject, "forget_object", id=near[1].id).result == 0
    left = robot.ask(ListObjects, "list_objects").objects
    assert [each.unknown_id for each in left] == ["u1"]


def test_a_learned_class_renames_what_was_unknown(robot):
    robot.see(found("", 0.1, unknown_id="u1"))
    robot.finds("", lambda o: len(o) == 1)
    learned = UnknownObject(id="u1", label="whisk", state=UnknownObject.STATE_LEARNED)
    robot.unknowns.publish(learned)
    [whisk] = robot.finds("whisk")
    robot.see(found("whisk", 0.11))
    robot.finds("whisk", lambda o: len(o) == 1 and o[0].sightings == 2 and o[0].id == whisk.id)


def test_a_thing_that_is_seen_through_is_gone_and_a_hidden_one_is_not(any_robot):
    any_robot.see(found("mug"), depth=0.95)
    [mug] = any_robot.finds("mug", lambda o: o)
    any_robot.see(depth=0.3)  # a hand before the camera
    any_robot.see(found("mug"), depth=0.95)
    any_robot.finds("mug", lambda o: o[0].sightings == 2 and o[0].presence > mug.presence)
    for _ in range(3):
        any_robot.see(depth=1.5)
    any_robot.finds("mug", lambda o: o[0].presence < 0.1)
    assert any_robot.find("mug", min_presence=0.5) == []


def test_the_best_view_is_kept_as_a_jpeg(any_robot):
    any_robot.see(found("mug"), depth=0.95)

    def viewed():
        objects = any_robot.find("mug", views=True)
        return objects and len(objects[0].view.data) and objects

    [mug] = eventually(viewed, "a view")
    view = decode_file(bytes(mug.view.data))
    assert view.shape == (48, 48, 3)
    np.testing.assert_allclose(view.mean((0, 1)), [200, 40, 40], atol=6)
    assert len(any_robot.find("mug")[0].view.data) == 0


def test_two_cameras_see_one_thing(ros, parameters):
    ros.started(ObjectMemoryNode, **parameters, cameras=["/front", "/rear"])
    front, rear = Robot(ros, "/front"), Robot(ros, "/rear")
    front.see(found("mug", 0.5), target=0.0)
    rear.see(found("mug", -0.5), target=1.0)
    [mug] = front.finds("mug", lambda o: o and o[0].sightings == 2)
    assert mug.pose.position.x == pytest.approx(0.5, abs=0.01)


def test_topics_with_a_leading_slash_are_taken_as_they_are(ros, parameters):
    topics = {"depth_topic": "/kinect/depth", "camera_info_topic": "/kinect/camera_info"}
    ros.started(ObjectMemoryNode, **parameters, cameras=["/front"], **topics)
    ros.connected(ros.publisher(Image, "/kinect/depth"))
    ros.connected(ros.publisher(CameraInfo, "/kinect/camera_info"))
    ros.connected(ros.publisher(Image, "/front/image"))


def test_detections_that_make_no_sense_are_left_out(robot):
    robot.see(found("nan", float("nan")), found("unsure", score=0.1), found("mug"))
    robot.finds("mug")
    assert robot.find("nan") == robot.find("unsure") == []


def test_positions_in_the_frame_of_a_camera_are_said_to_be_so(ros, robot):
    diagnostics = ros.diagnostics(NODE)
    robot.see(found("mug"))
    eventually(lambda: ros.logged("positions are in the frame of the camera, 'camera_optical'"))
    eventually(lambda: diagnostics() and "in the frame of the camera" in diagnostics().message)
    assert diagnostics().level == DiagnosticStatus.WARN


def test_what_is_not_placed_in_the_target_frame_is_not_remembered(ros, parameters):
    ros.started(ObjectMemoryNode, **parameters, target_frame="map")
    robot, diagnostics = Robot(ros), ros.diagnostics(NODE)
    robot.see(found("mug"))
    eventually(lambda: ros.logged("not in 'map'"), "a warning")

    def level():
        status = diagnostics()
        return status is not None and status.level

    eventually(lambda: level() == DiagnosticStatus.WARN, "diagnostics")
    robot.see(found("bowl"), target=0.0)
    robot.finds("bowl")
    assert robot.find("mug") == []
    eventually(lambda: level() == DiagnosticStatus.OK, "all is well")


def test_markers_show_what_is_remembered(ros, robot):
    shown = ros.collect(MarkerArray, f"{NODE}/markers")
    robot.see(found("mug", 0.2), target=0.0)
    markers = eventually(lambda: next((m.markers for m in shown if len(m.markers) == 3), None))
    assert [each.type for each in markers[1:]] == [Marker.CUBE, Marker.TEXT_VIEW_FACING]
    assert (markers[1].header.frame_id, markers[2].text) == ("map", "mug")


def test_a_database_that_is_damaged_leaves_the_node_unconfigured(ros, parameters, tmp_path):
    (tmp_path / "objects.db").write_bytes(b"nonsense " * 1000)
    node = ros.add(ObjectMemoryNode, **parameters)
    eventually(lambda: ros.logged("move it away to begin anew"))
    assert node.state() == UNCONFIGURED


def test_what_was_seen_is_there_after_a_kill(ros, parameters):
    code = "from newfound_runtime.executable import main; main('object_memory')"
    arguments = ("-c", code, "--ros-args", "-p", f"database:={parameters['database']}")
    process = ros.process(*arguments)
    ros.becomes_active(NODE)
    robot = Robot(ros)
    for number in range(20):
        robot.see(found(f"thing {number}", 0.2 * number), target=0.0)
    robot.finds("thing 19")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    ros.started(ObjectMemoryNode, **parameters)
    objects = eventually(lambda: robot.ask(ListObjects, "list_objects").objects)
    assert {each.label for each in objects} == {f"thing {number}" for number in range(20)}


def test_on_a_full_disk_answers_go_on_diagnostics_say_so_and_it_recovers(ros, parameters):
    code = "from newfound_runtime.executable import main; main('object_memory')"
    arguments = ("-c", code, "--ros-args", "-p", f"database:={parameters['database']}")
    process = ros.process(*arguments)
    ros.becomes_active(NODE)
    robot, diagnostics = Robot(ros), ros.diagnostics(NODE)
    robot.see(found("mug", 0.2), target=0.0)
    robot.finds("mug")
    limits = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, limits[1]))  # the kernel refuses

    def failed():
        robot.see(found("bowl"), target=0.0)
        return diagnostics() and diagnostics().level == DiagnosticStatus.ERROR

    eventually(failed, "diagnostics")
    assert "objects.db" in diagnostics().message
    robot.see(target=0.0)  # nothing to write is no recovery
    [mug] = robot.find("mug")
    assert robot.find("bowl") == []
    forget = robot.ask(ForgetObject, "forget_object", id=mug.id)
    assert forget.result == ForgetObject.Response.RESULT_STORAGE
    assert diagnostics().level == DiagnosticStatus.ERROR
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limits)
    robot.see(found("bowl"), target=0.0)
    robot.finds("bowl")
    eventually(lambda: diagnostics().level == DiagnosticStatus.OK, "recovered")
    assert len(robot.find("mug")) == 1
