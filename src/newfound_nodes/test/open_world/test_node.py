# SPDX-License-Identifier: Apache-2.0
"""The whole node over DDS, with a tiny model and the real learning process."""

import array
import itertools
import os
import shutil
import signal
import time

import cv2
import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.action import ActionClient
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_srvs.srv import Trigger

from newfound_core.open_world.memory_store import load_memory
from newfound_core.testing import tiny_open_world
from newfound_msgs.action import LearnClass
from newfound_msgs.msg import (
    AdaptationStatus,
    KnowledgeBase,
    LearningStatus,
    OpenWorldDetection,
    OpenWorldDetections,
    UnknownObject,
)
from newfound_msgs.srv import (
    AddUnknownClass,
    DismissUnknown,
    ForgetClass,
    ListClasses,
    RestoreKnowledge,
)
from newfound_nodes.open_world.node import OpenWorldDetector
from newfound_runtime import images
from newfound_runtime.managed_node import LATCHED
from newfound_runtime.testing import ACTIVE, UNCONFIGURED, eventually, image, values

RED, YELLOW = (220, 40, 40), (230, 220, 40)
NODE = "/open_world_detector"
Added, Forgot = AddUnknownClass.Response, ForgetClass.Response
Restored = RestoreKnowledge.Response


def frame(pixels, number=0):
    message = image(pixels.shape[1], pixels.shape[0], number)
    message.data = array.array("B", pixels.tobytes())
    return message


def picture(pixels, kind=".png"):
    content = cv2.imencode(kind, cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))[1].tobytes()
    return CompressedImage(format=kind[1:], data=content)


@pytest.fixture
def parameters(tmp_path, shipped):
    return {
        "checkpoint": str(shipped),
        "knowledge_base": str(tmp_path / "base"),
        "proposer": "whole_image",
        "announce_after": 3,
        "learning_epochs": 1,
        "learning_threads": 1,
        "learning_niceness": 0,
        "max_accuracy_loss": 1.0,
    }


class Robot:
    """A node, a camera, and everything that it says."""

    def __init__(self, ros, node, square):
        self.ros, self.node, self.square, self.number = ros, node, square, 0
        self.detections = ros.collect(OpenWorldDetections, f"{NODE}/detections")
        self.unknowns = ros.collect(UnknownObject, f"{NODE}/unknowns")
        self.learning = ros.collect(LearningStatus, f"{NODE}/learning")
        self.camera = ros.publisher(Image, "/image")
        ros.connected(self.camera)
        eventually(lambda: node._input.reliability() == "reliable", "reliable subscription")

    def see(self, colour, count=1):
        """Show a colour; what was detected last."""
        for _ in range(count):
            self.number += 1
            before = len(self.detections)
            self.camera.publish(frame(self.square(colour, self.number), self.number))
            eventually(lambda b=before: len(self.detections) > b, "detections")
        return self.detections[-1].detections[0]

    def ask(self, kind, name, **request):
        return self.ros.call(kind, f"{NODE}/{name}", kind.Request(**request))

    def add(self, label, colour=YELLOW, count=4, **request):
        images = [picture(self.square(colour, 100 + i)) for i in range(count)]
        request = {"images": images} | request
        return self.ask(AddUnknownClass, "add_unknown_class", label=label, **request)

    def end_of(self, job):
        return eventually(
            lambda: next((s for s in self.learning if s.job_id == job and s.state >= 10), None),
            f"end of job {job}",
            timeout=200,
        )


@pytest.fixture
def robot(ros, parameters, square):
    return Robot(ros, ros.started(OpenWorldDetector, **parameters), square)


def test_known_things_are_named_and_others_called_unknown(robot):
    red = robot.see(RED)
    assert (red.kind, red.label, red.nearest_label) == (
        OpenWorldDetection.KIND_KNOWN,
        "red",
        "red",
    )
    assert 0 < red.distance <= red.rejection_threshold
    assert (red.region.width, red.region.height) == (64, 48)
    yellow = robot.see(YELLOW)
    assert (yellow.kind, yellow.label) == (OpenWorldDetection.KIND_UNKNOWN, "")
    assert yellow.distance > yellow.rejection_threshold
    assert robot.detections[-1].knowledge_version == 1
    assert robot.detections[-1].header.frame_id == f"camera {robot.number}"


def test_detections_are_filtered_by_class_and_score_while_it_runs(robot):
    def found(colour):
        robot.number += 1
        before = len(robot.detections)
        robot.camera.publish(frame(robot.square(colour, robot.number), robot.number))
        eventually(lambda: len(robot.detections) > before, "detections")
        return [each.label for each in robot.detections[-1].detections]

    assert (found(RED), found(YELLOW)) == (["red"], [""])
    robot.ros.set(NODE, shown_classes=["red"])
    assert (found(RED), found(YELLOW)) == (["red"], [])
    robot.ros.set(NODE, shown_classes=["unknown", "blue"])
    assert (found(RED), found(YELLOW)) == ([], [""])
    robot.ros.set(NODE, shown_classes=[""], min_score=1.0)
    assert found(RED) == []
    for _ in range(4):
        found(YELLOW)
    eventually(lambda: robot.unknowns, "an unknown object is announced though it is not shown")


def test_the_debug_image_comes_raw_and_compressed(robot):
    raw = robot.ros.collect(Image, f"{NODE}/debug_image")
    compressed = robot.ros.collect(CompressedImage, f"{NODE}/debug_image/compressed")
    eventually(lambda: robot.see(RED) and raw and compressed)
    assert images.decode(compressed[-1]).shape == images.to_rgb(raw[-1]).shape


def test_a_dismissed_unknown_is_told_of_once_more_and_not_again(robot):
    unknown_id = robot.see(YELLOW, 3).unknown_id
    answer = robot.ask(DismissUnknown, "dismiss_unknown", unknown_id=unknown_id)
    assert answer.result == DismissUnknown.Response.RESULT_OK, answer.message
    eventually(lambda: robot.unknowns[-1].state == UnknownObject.STATE_DISMISSED)
    told = len(robot.unknowns)
    robot.see(YELLOW, 9)
    assert len(robot.unknowns) == told
    answer = robot.ask(DismissUnknown, "dismiss_unknown", unknown_id="u0")
    assert answer.result == DismissUnknown.Response.RESULT_UNKNOWN_ID
    assert "u0" in answer.message


@pytest.mark.slow
def test_an_unknown_is_announced_learned_and_recognised(robot):
    seen = robot.see(YELLOW, 12)
    announced = eventually(lambda: robot.unknowns and robot.unknowns[0])
    assert (announced.state, announced.sightings) == (UnknownObject.STATE_WAITING, 3)
    assert seen.unknown_id == announced.id
    assert len({message.id for message in robot.unknowns}) == 1
    added = robot.add("lemon", images=[], unknown_id=announced.id)
    assert (added.result, added.queue_position) == (Added.RESULT_OK, 0)
    done = robot.end_of(added.job_id)
    assert (done.state, done.knowledge_version) == (LearningStatus.STATE_DONE, 2), done.message
    assert robot.see(YELLOW).label == "lemon"
    assert robot.see(RED).label == "red"
    eventually(lambda: robot.unknowns[-1].state == UnknownObject.STATE_LEARNED)
    late = []
    robot.ros.client.create_subscription(KnowledgeBase, f"{NODE}/knowledge", late.append, LATCHED)
    knowledge = eventually(lambda: late and late[-1])
    assert [known.label for known in knowledge.classes] == ["red", "green", "blue", "lemon"]
    assert (knowledge.classes[3].since_version, knowledge.restorable_versions[0]) == (2, 1)

    forgot = robot.ask(ForgetClass, "forget_class", label="lemon")
    assert (forgot.result, forgot.knowledge_version) == (Forgot.RESULT_OK, 3)
    assert robot.see(YELLOW).label == ""
    restored = robot.ask(RestoreKnowledge, "restore_knowledge", version=2)
    assert (restored.result, restored.knowledge_version) == (Restored.RESULT_OK, 4)
    assert robot.see(YELLOW).label == "lemon"


def test_following_the_light_is_switched_live_told_and_reset(robot):
    told = robot.ros.collect(AdaptationStatus, f"{NODE}/adaptation")
    assert eventually(lambda: told and told[-1]).state == AdaptationStatus.STATE_DISABLED
    assert robot.ros.set(NODE, adapt=True).successful
    robot.see(RED, 3)
    eventually(lambda: told[-1].state == AdaptationStatus.STATE_ADAPTING and told[-1].frames >= 3)
    assert (told[-1].estimator, list(told[-1].layers)) == ("embedding", ["embedding"])
    assert robot.ros.set(NODE, freeze=True).successful
    eventually(lambda: told[-1].state == AdaptationStatus.STATE_FROZEN)
    assert robot.ask(Trigger, "reset_adaptation").success
    assert not robot.ros.set(NODE, adaptation_window=12).successful, "read at configure"


@pytest.mark.slow
def test_a_known_class_can_be_taught_further_views(robot):
    assert robot.add("red", (220, 90, 40)).result == Added.RESULT_LABEL_EXISTS
    assert robot.ros.set(NODE, extend_known=True).successful
    added = robot.add("red", (220, 90, 40))
    done = robot.end_of(added.job_id)
    assert (done.state, done.knowledge_version) == (LearningStatus.STATE_DONE, 2), done.message
    classes = robot.ask(ListClasses, "list_classes").knowledge.classes
    assert [known.label for known in classes] == ["red", "green", "blue"]
    assert (classes[0].exemplars, classes[1].exemplars) == (10, 6)
    assert classes[0].since_version == 1


def test_whoever_listens_late_is_told_what_waits_to_be_named(robot):
    robot.see(YELLOW, 4)
    first = eventually(lambda: robot.unknowns and robot.unknowns[0])
    late = robot.ros.collect(UnknownObject, f"{NODE}/unknowns")
    told = eventually(lambda: late and late[0], "an unknown that was announced before")
    assert (told.id, told.state) == (first.id, UnknownObject.STATE_WAITING)


class Teacher:
    """A client of the action, and all the feedback it got."""

    def __init__(self, robot):
        self.robot, self.feedback = robot, []
        self.client = ActionClient(robot.ros.client, LearnClass, f"{NODE}/learn_class")
        assert self.client.wait_for_server(60)

    def send(self, label, images=None):
        """Ask for a class; the goal, and the result to come."""
        handle = self.ask(label, images)
        return handle, handle.get_result_async()

    def ask(self, label, images=None):
        """Send a goal; its handle says whether it was accepted."""
        images = images or [picture(self.robot.square(YELLOW, i)) for i in range(4)]
        goal = LearnClass.Goal(label=label, images=images)
        sent = self.client.send_goal_async(goal, lambda m: self.feedback.append(m.feedback.status))
        return eventually(lambda: sent.done() and sent.result())

    @staticmethod
    def result(future):
        return eventually(lambda: future.done() and future.result().result, timeout=200)


@pytest.mark.slow
def test_the_action_follows_a_job_to_its_end_and_can_be_cancelled(robot):
    teacher = Teacher(robot)
    _, learned = teacher.send("lemon")
    second, cancelled = teacher.send("sun")  # waits for the first
    refused = teacher.ask("red")
    assert not refused.accepted, "a goal that cannot be granted is rejected"
    eventually(lambda: any("'red' rejected: a class" in w for w in robot.ros.warnings(NODE)))
    second.cancel_goal_async()
    assert teacher.result(cancelled).result == LearnClass.Result.RESULT_CANCELLED
    result = teacher.result(learned)
    assert (result.result, result.knowledge_version) == (0, 2), result.message
    assert 0 <= result.accuracy_before <= 1
    assert {status.label for status in teacher.feedback} >= {"lemon"}
    assert robot.see(YELLOW).label == "lemon"


@pytest.mark.slow
def test_the_action_tells_states_and_progress_that_only_grow(ros, parameters, square):
    node = ros.started(OpenWorldDetector, **parameters | {"learning_epochs": 0})
    teacher = Teacher(Robot(ros, node, square))
    _, learned = teacher.send("lemon")
    assert teacher.result(learned).result == LearnClass.Result.RESULT_OK
    told = [status for status in teacher.feedback if status.state != LearningStatus.STATE_QUEUED]
    states = [status.state for status in told]
    assert states == sorted(states)
    assert states[0] == LearningStatus.STATE_PREPARING
    assert states[-1] == LearningStatus.STATE_SWITCHING
    assert LearningStatus.STATE_TRAINING not in states, "the network is not trained"
    progress = [status.progress for status in told]
    assert progress == sorted(progress)
    assert progress[-1] == pytest.approx(0.99)
    # So small a job may end before its time can be estimated.
    assert all(s.remaining_seconds == -1 or s.remaining_seconds >= 0 for s in told)


@pytest.mark.slow
def test_a_known_thing_taught_under_another_name_is_rejected(ros, parameters, square, tmp_path):
    model = tiny_open_world(tmp_path / "model", images=12, held_out=0.4)
    red = [s.pixels() for s in load_memory(model / "memory").samples("red") if s.held_out]
    parameters |= {"checkpoint": str(model), "learning_epochs": 0}
    robot = Robot(ros, ros.started(OpenWorldDetector, **parameters), square)
    _, rejected = Teacher(robot).send("crimson", [picture(pixels) for pixels in [*red, *red]])
    result = Teacher.result(rejected)
    assert result.result == LearnClass.Result.RESULT_REJECTED
    assert "'red' (100 to" in result.message
    assert (result.knowledge_version, result.accuracy_before) == (1, 1.0)
    assert result.accuracy_after < 1
    assert robot.learning[-1].state == LearningStatus.STATE_REJECTED
    assert robot.see(RED).label == "red"


def test_a_job_that_the_disk_does_not_take_is_told_as_such(robot, tmp_path):
    queue = robot.node.session.jobs
    first = robot.add("lemon").job_id
    _, refused = Teacher(robot).send("sun")  # waits for the first
    second = tmp_path / "base" / "jobs" / "000002"
    eventually(second.exists)
    (second / "attempts").mkdir()  # a file that cannot be written
    queue.cancel(first)
    result = Teacher.result(refused)
    assert result.result == LearnClass.Result.RESULT_STORAGE
    assert "could not be written" in result.message


def test_requests_that_cannot_be_are_refused_with_the_reason(robot):
    junk = [CompressedImage(format="jpeg", data=b"not an image")] * 3
    for request, code in (
        ({"label": ""}, Added.RESULT_INVALID_LABEL),
        ({"label": "../../etc/passwd"}, Added.RESULT_INVALID_LABEL),
        ({"label": "x" * 10_000}, Added.RESULT_INVALID_LABEL),
        ({"label": "red"}, Added.RESULT_LABEL_EXISTS),
        ({"label": "lemon", "images": [], "unknown_id": "u0"}, Added.RESULT_UNKNOWN_ID),
        ({"label": "lemon", "images": [], "unknown_id": "../x"}, Added.RESULT_UNKNOWN_ID),
        ({"label": "lemon", "images": junk}, Added.RESULT_BAD_IMAGES),
        ({"label": "lemon", "images": []}, Added.RESULT_BAD_IMAGES),
    ):
        answer = robot.add(**request)
        assert (answer.result, answer.job_id) == (code, ""), answer.message
        assert answer.message
    for label in ("unheard of", ""):
        answer = robot.ask(ForgetClass, "forget_class", label=label)
        assert (answer.result, answer.knowledge_version) == (Forgot.RESULT_UNKNOWN_LABEL, 1)
    for version in (0, 1, 99, 2**63):
        answer = robot.ask(RestoreKnowledge, "restore_knowledge", version=version)
        assert answer.result == Restored.RESULT_UNKNOWN_VERSION
    answer = robot.ask(ListClasses, "list_classes")
    assert [known.label for known in answer.knowledge.classes] == ["red", "green", "blue"]
    assert answer.knowledge.memory_size == 18


def test_a_flood_of_requests_fills_the_queue_and_no_more(ros, parameters, square):
    node = ros.started(OpenWorldDetector, **parameters | {"queue_limit": 2})
    robot = Robot(ros, node, square)
    photographs = [picture(np.full((3000, 4000, 3), 90, np.uint8), ".jpg")] * 8
    answers = [robot.add(f"thing {number}", count=2) for number in range(2)]
    answers += [robot.add(f"thing {number}", images=photographs) for number in range(2, 6)]
    results = [answer.result for answer in answers]
    assert results.count(Added.RESULT_BUSY) >= 3
    junk = [CompressedImage(format="jpeg", data=b"not an image")] * 3
    assert robot.add("junk", images=junk).result == Added.RESULT_BUSY, "no image was decoded"
    assert results[:2] == [Added.RESULT_OK, Added.RESULT_OK]
    assert robot.add("thing 0").result in (Added.RESULT_LABEL_EXISTS, Added.RESULT_BUSY)
    assert robot.ask(ForgetClass, "forget_class", label="red").result == Forgot.RESULT_BUSY
    for answer in answers[:2]:
        node.session.jobs.cancel(answer.job_id)
    assert robot.see(RED).label == "red", "frames go on meanwhile"


def test_whoever_asked_for_it_a_job_can_be_cancelled_by_a_service(robot):
    job = robot.add("lemon").job_id
    assert robot.ask(ForgetClass, "forget_class", label="red").result == Forgot.RESULT_BUSY
    answer = robot.ask(Trigger, "cancel_learning")
    assert answer.success
    assert job in answer.message
    assert robot.end_of(job).state == LearningStatus.STATE_CANCELLED
    answer = robot.ask(Trigger, "cancel_learning")
    assert (answer.success, answer.message) == (False, "nothing is being learned")
    assert robot.ask(ForgetClass, "forget_class", label="red").result == Forgot.RESULT_OK


def test_a_node_that_is_not_active_says_so(ros, parameters):
    ros.add(OpenWorldDetector, **parameters | {"autostart": False})
    request = AddUnknownClass.Request(label="lemon")
    answer = ros.call(AddUnknownClass, f"{NODE}/add_unknown_class", request)
    assert answer.result == Added.RESULT_NOT_READY
    answer = ros.call(ListClasses, f"{NODE}/list_classes", ListClasses.Request())
    assert (answer.result, answer.knowledge.version) == (ListClasses.Response.RESULT_NOT_READY, 0)
    answer = ros.call(Trigger, f"{NODE}/cancel_learning", Trigger.Request())
    assert (answer.success, answer.message) == (False, "the node is not active")


def test_a_second_node_on_the_same_knowledge_refuses(ros, parameters):
    ros.started(OpenWorldDetector, **parameters)
    second = ros.add(OpenWorldDetector, "second", **parameters | {"autostart": False})
    assert not ros.change("/second", "configure")
    assert second.state() == UNCONFIGURED
    assert ros.change(NODE, "deactivate")
    assert ros.change(NODE, "cleanup")
    assert ros.change("/second", "configure")


def test_a_checkpoint_of_another_method_leaves_the_node_unconfigured(ros, parameters, checkpoint):
    parameters |= {"checkpoint": str(checkpoint("source")), "autostart": False}
    node = ros.add(OpenWorldDetector, **parameters)
    assert not ros.change(NODE, "configure")
    assert node.state() == UNCONFIGURED
    assert node.session is None


def test_a_damaged_version_on_start_is_passed_over_and_reported(ros, parameters, square, tmp_path):
    robot = Robot(ros, ros.started(OpenWorldDetector, **parameters), square)
    assert robot.ask(ForgetClass, "forget_class", label="blue").knowledge_version == 2
    ros.change(NODE, "deactivate")
    ros.change(NODE, "cleanup")
    tensors = tmp_path / "base" / "current" / "model.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:1000])
    diagnostics = ros.diagnostics(NODE)
    assert ros.change(NODE, "configure")
    assert ros.change(NODE, "activate")
    answer = robot.ask(ListClasses, "list_classes")
    assert (answer.knowledge.version, len(answer.knowledge.classes)) == (1, 3)
    eventually(
        lambda: (s := diagnostics()) and "version 2" in values(s).get("warnings", ""),
        "a report",
    )
    status = eventually(lambda: (s := diagnostics()).level == DiagnosticStatus.WARN and s)
    assert "version 2" in status.message
    eventually(lambda: ros.logged("knowledge version 1: bdoc, 3 classes; from the knowledge base"))


@pytest.mark.slow
def test_a_killed_node_loses_neither_knowledge_nor_unknowns_nor_the_job(
    ros, parameters, square, tmp_path
):
    run = "from newfound_runtime.executable import main; main('open_world_detector')"
    arguments = ["-c", run, "--ros-args"]
    for key, value in parameters.items():
        arguments += ["-p", f"{key}:={value}"]
    first = ros.process(*arguments)
    unknowns = ros.collect(UnknownObject, f"{NODE}/unknowns")
    learning = ros.collect(LearningStatus, f"{NODE}/learning")
    camera = ros.publisher(Image, "/image")
    numbers = itertools.count(1)

    def announced():
        camera.publish(frame(square(YELLOW, n := next(numbers)), n))
        time.sleep(0.05)
        return unknowns and unknowns[0]

    # A process that imports torch on a busy machine takes its time.
    unknown_id = eventually(announced, "an unknown", timeout=250).id
    images = [picture(square(YELLOW, n)) for n in range(4)]
    request = AddUnknownClass.Request(label="lemon", unknown_id=unknown_id, images=images)
    answer = ros.call(AddUnknownClass, f"{NODE}/add_unknown_class", request)
    assert answer.result in (Added.RESULT_OK, Added.RESULT_LABEL_EXISTS), answer.message
    eventually(lambda: learning, "the job has begun")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    del unknowns[:]
    node = ros.started(OpenWorldDetector, **parameters)
    entry = node.session.unknown(unknown_id)
    if entry is not None:  # the process of the first node may have learned it already
        assert (entry.state, entry.label) == ("learning", "lemon")
        assert entry.crops
    eventually(lambda: "lemon" in node.session.in_use.knowledge.labels, timeout=200)
    eventually(lambda: node.session.unknown(unknown_id) is None, "it is no unknown any more")
    assert node.state() == ACTIVE
    assert node.session.in_use.version == 2


def test_depth_finds_things_on_a_table(ros, parameters, square):
    parameters |= {"proposer": "depth", "depth_topic": "/depth", "depth_timeout": 5.0}
    node = ros.started(OpenWorldDetector, **parameters)
    robot = Robot(ros, node, square)
    depth = ros.publisher(Image, "/depth")
    ros.connected(depth)
    eventually(lambda: node._depth.reliability() == "reliable", "reliable subscription")
    table = np.full((48, 64), 1000, np.uint16)
    table[12:36, 16:48] = 900
    colour, metres = frame(square(RED), 5), image(64, 48, 5)
    metres.encoding, metres.step = "16UC1", 128
    metres.data = array.array("B", table.tobytes())
    depth.publish(metres)
    robot.camera.publish(colour)
    found = eventually(lambda: robot.detections and robot.detections[-1]).detections
    region = found[0].region
    assert len(found) == 1
    assert abs(region.x_offset - 16) <= 1
    assert abs(region.width - 32) <= 2
    assert found[0].proposed_by == "depth"
    robot.camera.publish(frame(square(RED), 99))  # there is no depth of that moment
    eventually(lambda: len(robot.detections) > 1, timeout=60)
    assert robot.detections[-1].detections == []


def test_a_region_network_finds_things_and_min_objectness_decides_which(
    ros, parameters, square, region_network
):
    parameters |= {"proposer": "regions", "proposer_checkpoint": str(region_network)}
    sure = ros.started(OpenWorldDetector, **parameters | {"min_objectness": 0.0})
    robot = Robot(ros, sure, square)
    region = robot.see(RED).region
    assert 0 < region.width <= 64
    assert 1 < len(robot.detections[-1].detections) <= 10
    assert {found.proposed_by for found in robot.detections[-1].detections} == {"colour"}
    for transition in ("deactivate", "cleanup"):
        assert ros.change(NODE, transition)
    assert ros.set(NODE, min_objectness=1.0).successful
    for transition in ("configure", "activate"):
        assert ros.change(NODE, transition)
    eventually(lambda: sure._input.reliability() == "reliable", "reliable subscription")
    before = len(robot.detections)
    robot.camera.publish(frame(square(RED), 50))
    eventually(lambda: len(robot.detections) > before, "detections")
    assert robot.detections[-1].detections == []


def test_camera_info_calibrates_the_depth_proposer(ros, parameters):
    parameters |= {"proposer": "depth", "camera_info_topic": "/camera/info", "camera_pitch": 30.0}
    node = ros.started(OpenWorldDetector, **parameters)
    camera = node.session._detector.proposer.camera
    assert (camera.focal_x, camera.up[2]) == pytest.approx((0.82, -0.5))
    publisher = ros.client.create_publisher(CameraInfo, "/camera/info", 1)
    eventually(publisher.get_subscription_count, "subscription")
    publisher.publish(CameraInfo(width=640, height=480))
    eventually(lambda: ros.logged("has no focal length"))
    publisher.publish(CameraInfo(width=640, height=480, k=[600.0, 0, 300, 0, 590, 230, 0, 0, 1]))
    eventually(lambda: node.session._detector.proposer.camera.focal_x == 600 / 640, "calibration")
    assert node.session._detector.proposer.camera.up[2] == pytest.approx(-0.5)


def test_a_region_network_without_a_model_leaves_the_node_unconfigured(ros, parameters):
    without = {"proposer": "regions", "proposer_checkpoint": "", "autostart": False}
    ros.add(OpenWorldDetector, **parameters | without)
    assert not ros.change(NODE, "configure")
    eventually(lambda: ros.logged("set proposer_checkpoint"))


def test_without_depth_the_node_warns_and_says_what_to_do(ros, parameters, square):
    parameters |= {"proposer": "depth", "depth_topic": "/no/depth", "depth_timeout": 0.0}
    robot = Robot(ros, ros.started(OpenWorldDetector, **parameters), square)
    diagnostics = ros.diagnostics(NODE)
    for number in range(1, 6):
        robot.camera.publish(frame(square(RED), number))
        eventually(lambda n=number: len(robot.detections) >= n, "detections")
    status = eventually(
        lambda: (s := diagnostics()) and s.level == DiagnosticStatus.WARN and s, "a warning"
    )
    assert "no depth on /no/depth: 5 of the last 5 frames" in status.message
    eventually(lambda: ros.logged("depth_topic"), "a hint")


def test_the_debug_image_shows_what_was_found(robot):
    pictures = robot.ros.collect(Image, f"{NODE}/debug_image")
    eventually(lambda: robot.node.wanted("debug_image"))
    robot.see(RED)
    shown = eventually(lambda: pictures and pictures[-1])
    assert (shown.width, shown.height, shown.encoding) == (64, 48, "rgb8")
    plain = frame(robot.square(RED, robot.number))
    assert bytes(shown.data) != bytes(plain.data)


def test_a_deleted_knowledge_base_is_answered_and_shown_in_diagnostics(robot, parameters):
    newest = robot.ros.diagnostics(NODE)
    shutil.rmtree(parameters["knowledge_base"])
    assert robot.add("lemon").result == Added.RESULT_STORAGE
    forgot = robot.ask(ForgetClass, "forget_class", label="red")
    assert forgot.result == Forgot.RESULT_STORAGE
    eventually(lambda: newest() and newest().level == DiagnosticStatus.ERROR)
    assert "was deleted" in newest().message


def test_a_device_that_is_not_there_is_an_error_in_diagnostics(ros, parameters):
    newest = ros.diagnostics(NODE)
    ros.add(OpenWorldDetector, **parameters | {"device": "cuda:77"})
    eventually(lambda: newest() and newest().level == DiagnosticStatus.ERROR)
    assert "the device 'cuda:77' cannot be used here" in newest().message
