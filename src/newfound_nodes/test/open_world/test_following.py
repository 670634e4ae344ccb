# SPDX-License-Identifier: Apache-2.0
"""Two cameras, one knowledge base: real nodes, one of which owns it."""

import array
import itertools
import shutil

import pytest
from sensor_msgs.msg import CompressedImage, Image

from newfound_core.detection.detector import Detector
from newfound_core.detection.proposals import WholeImage
from newfound_core.detection.same_object import View
from newfound_core.detection.unknown_objects import UnknownState
from newfound_core.detection.unknown_store import UnknownsConfig
from newfound_core.errors import KnowledgeError
from newfound_core.learning.job import LearningOptions
from newfound_msgs.msg import OpenWorldDetections
from newfound_msgs.srv import AddUnknownClass, ForgetClass, ReportUnknown
from newfound_nodes.open_world.following import FollowingSession
from newfound_nodes.open_world.node import OpenWorldDetector
from newfound_nodes.open_world.session import OpenWorldSession, SessionConfig
from newfound_runtime.testing import eventually, image

RED, YELLOW = (220, 40, 40), (230, 220, 40)
OWNER, REAR = "/open_world_detector", "/rear"


class Events:
    """Collects what a session reports."""

    def __init__(self):
        self.told = []
        report = self.told.append
        self.knowledge_changed = self.unknown_changed = self.job_changed = report
        self.storage_failed = print


@pytest.fixture
def config(tmp_path, shipped):
    unknowns = UnknownsConfig(announce_after=3)
    return SessionConfig(tmp_path / "base", shipped, unknowns=unknowns, learn_in_process=0)


@pytest.fixture
def front(config):
    session = OpenWorldSession(config, Detector(WholeImage()), Events())
    yield session
    session.close()


@pytest.fixture
def rear(config, front, tmp_path):
    """Follows, and reports to the owner without ROS between them."""

    def send(entry):
        found = front.report("rear", "1", entry)
        state = found.state if found else UnknownState.EXPIRED
        session.answered(entry.id, entry.sightings, found.id if found else "", state)

    own = tmp_path / "own"
    session = FollowingSession(config, own, Detector(WholeImage()), Events(), send=send)
    yield session
    session.close()


def show(session, square, colour, count=1):
    for number in range(count):
        view = View(number, "camera", 64, 48)
        seen = session.process(square(colour, number), None, view)
    return seen


def test_a_class_that_the_owner_learns_and_forgets_is_known_and_unknown_to_the_other(
    front, rear, square
):
    show(front, square, YELLOW, 8)
    (unknown,) = front.unknowns()
    options = LearningOptions(max_accuracy_loss=1.0, max_class_loss=1.0)
    front.learn("yellow", unknown.id, lambda: ({}, ""), options)
    eventually(lambda: "yellow" in rear.in_use.knowledge.labels, "the follower reads it")
    assert show(rear, square, YELLOW).detections[0].label == "yellow"
    assert rear.in_use.version == front.version()
    front.forget("yellow")
    eventually(lambda: "yellow" not in rear.in_use.knowledge.labels, "and forgets it")


def test_one_thing_before_two_cameras_is_one_question(front, rear, square):
    (own,) = show(front, square, YELLOW, 8).unknown_ids
    assert show(rear, square, YELLOW, 8).unknown_ids == [""]  # it has not been reported yet
    rear.tick()
    assert show(rear, square, YELLOW).unknown_ids == [own]
    assert [entry.id for entry in front.unknowns()] == [own]
    assert front.unknown(own).sightings > 8
    assert rear.problems() == []


def test_what_only_the_second_camera_sees_is_asked_about_by_the_owner_and_learned(
    front, rear, square
):
    show(rear, square, YELLOW, 12)
    rear.tick()
    (entry,) = front.unknowns()
    options = LearningOptions(max_accuracy_loss=1.0, max_class_loss=1.0)
    front.learn("yellow", entry.id, lambda: ({}, ""), options)
    eventually(lambda: show(rear, square, YELLOW).detections[0].label == "yellow", "recognised")
    eventually(lambda: not rear.unknowns(), "and no longer unknown")


def test_what_is_dismissed_is_not_reported_again(front, rear, square):
    show(rear, square, YELLOW, 8)
    rear.tick()
    front.dismiss(front.unknowns()[0].id)
    show(rear, square, YELLOW, 40)
    rear.tick()
    assert rear.unknowns()[0].state == UnknownState.DISMISSED
    rear.tick()
    assert [entry.state for entry in front.unknowns()] == [UnknownState.DISMISSED]


def test_a_follower_keeps_what_it_has_when_the_folder_is_gone_and_says_so(
    front, rear, square, config
):
    shutil.move(config.root / "versions", config.root / "away")
    eventually(rear.problems, "it is said")
    assert "cannot be read" in rear.problems()[0]
    assert show(rear, square, RED).detections[0].label == "red"
    shutil.move(config.root / "away", config.root / "versions")
    eventually(lambda: not rear.problems(), "all is well", timeout=15)


def test_without_an_owner_nothing_is_followed(config, tmp_path):
    with pytest.raises(KnowledgeError, match="Is its owner running"):
        FollowingSession(config, tmp_path, Detector(WholeImage()), Events(), send=print, wait=0.2)


def frame(pixels, number):
    message = image(pixels.shape[1], pixels.shape[0], number)
    message.data = array.array("B", pixels.tobytes())
    return message


@pytest.fixture
def cameras(ros, tmp_path, shipped):
    """Two running detectors; the second shares the knowledge of the first."""
    options = {
        "checkpoint": str(shipped),
        "knowledge_base": str(tmp_path / "base"),
        "proposer": "whole_image",
        "announce_after": 3,
        "min_unknown_size": 0.0,
        "min_stability": 0.0,
        "max_accuracy_loss": 1.0,
        "max_class_loss": 1.0,
    }
    front = ros.started(OpenWorldDetector, **options, image_topic="/front/image")
    rear = ros.started(
        OpenWorldDetector, "rear", **options, image_topic="/rear/image", knowledge_owner=OWNER
    )
    return front, rear


def test_over_ros_one_question_is_asked_and_both_cameras_know_the_answer(ros, cameras, square):
    front, rear = cameras
    seen = ros.collect(OpenWorldDetections, f"{REAR}/detections")
    ros.collect(OpenWorldDetections, f"{OWNER}/detections")
    publishers = [ros.publisher(Image, f"/{name}/image") for name in ("front", "rear")]

    numbers = itertools.count()

    def stream():
        number = next(numbers)
        for publisher in publishers:
            publisher.publish(frame(square(YELLOW, number), number))

    eventually(lambda: stream() or (seen and seen[-1].detections[0].unknown_id), "reported")
    (entry,) = front.session.unknowns()
    eventually(lambda: stream() or seen[-1].detections[0].unknown_id == entry.id, "one id")
    refused = ros.call(ForgetClass, f"{REAR}/forget_class", ForgetClass.Request(label="red"))
    assert refused.result == refused.RESULT_NOT_READY
    assert OWNER in refused.message
    request = AddUnknownClass.Request(label="yellow", unknown_id=entry.id)
    assert ros.call(AddUnknownClass, f"{OWNER}/add_unknown_class", request).result == 0
    eventually(lambda: stream() or seen[-1].detections[0].label == "yellow", "the rear knows")
    assert rear.session.in_use.version == front.session.version()


@pytest.mark.parametrize("change", ["nothing", "no_name", "no_image", "other_count", "bad_state"])
def test_a_report_that_makes_no_sense_is_refused(ros, cameras, change):
    request = ReportUnknown.Request(reporter="x", run="1")
    request.unknown.id, request.unknown.state = "a", 1
    if change == "no_name":
        request.reporter = ""
    if change == "bad_state":
        request.unknown.state = 99
    if change == "no_image":
        request.unknown.crops = [CompressedImage(format="jpeg", data=b"junk")]
        request.quality, request.frames = [0.5], [1]
    if change == "other_count":
        request.quality = [0.5]
    answer = ros.call(ReportUnknown, f"{OWNER}/report_unknown", request)
    assert answer.result == answer.RESULT_BAD_IMAGES
    assert answer.message
    assert cameras[0].session.unknowns() == []
