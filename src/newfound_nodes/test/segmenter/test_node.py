# SPDX-License-Identifier: Apache-2.0
"""The node over real DDS, with a tiny network."""

import array
import os
import signal

import numpy as np
import pytest
from rclpy.action import ActionClient
from sensor_msgs.msg import Image
from std_srvs.srv import Trigger

from newfound_core.segmentation.segmenter import Segmenter
from newfound_core.testing import COLOURS, coloured_scene
from newfound_msgs.action import LearnSegment
from newfound_msgs.msg import AdaptationStatus, KnowledgeBase, LearningStatus
from newfound_msgs.srv import (
    AddSegmentClass,
    ForgetClass,
    ListClasses,
    ListVersions,
    RenameClass,
    RestoreKnowledge,
)
from newfound_nodes import vision_messages
from newfound_nodes.knowledge.learning_queue import _LOCK, _holder
from newfound_nodes.segmenter.node import SegmenterNode
from newfound_runtime.testing import eventually, values

from .conftest import YELLOW, yellow_things

NODE = "/segmenter"
BEFORE = ["background", "red", "green", "blue"]


def message(rgb, number=1):
    made = Image(height=rgb.shape[0], width=rgb.shape[1], encoding="rgb8", step=3 * rgb.shape[1])
    made.data = array.array("B", rgb.tobytes())
    made.header.stamp.sec, made.header.frame_id = number, "optical"
    return made


def pixels(image):
    return np.frombuffer(image.data, np.uint8).reshape(image.height, image.width)


def labels(knowledge):
    return [known.label for known in knowledge.classes]


@pytest.fixture
def running(ros, shipped, tmp_path):
    """A node at work, and what asks it."""

    class Running:
        def __init__(self, **options):
            given = {"checkpoint": str(shipped), "knowledge_base": str(tmp_path / "base")}
            self.masks = ros.collect(Image, f"{NODE}/mask")
            self.publisher = ros.publisher(Image, "/image")
            self.node = ros.started(SegmenterNode, **{**given, **options})
            ros.connected(self.publisher)

        def mask(self, rgb):
            count = len(self.masks)
            self.publisher.publish(message(rgb, count + 1))
            eventually(lambda: len(self.masks) > count, "mask")
            return pixels(self.masks[-1])

        def knowledge(self):
            return ros.call(ListClasses, f"{NODE}/list_classes", ListClasses.Request()).knowledge

        def add(self, label, count=4):
            images, masks = yellow_things(count)
            request = AddSegmentClass.Request(label=label, images=images, masks=masks)
            return ros.call(AddSegmentClass, f"{NODE}/add_segment_class", request)

    return Running


def test_a_mask_is_what_the_network_says_with_the_images_header_and_size(running, shipped):
    node = running()
    rgb, _ = coloured_scene(COLOURS, 7, (90, 130))
    found = node.mask(rgb)
    assert (found == Segmenter.load(shipped).segment(rgb).mask).all()
    sent = node.masks[-1]
    assert (sent.encoding, sent.width, sent.height, sent.step) == ("mono8", 130, 90, 130)
    assert (sent.header.stamp.sec, sent.header.frame_id) == (1, "optical")


def test_uncertain_pixels_are_255_from_the_next_frame_on(running, ros, shipped):
    node = running()
    confidences = ros.collect(Image, f"{NODE}/confidence")
    eventually(lambda: node.node.wanted("confidence"))
    rgb, _ = coloured_scene(COLOURS, 7)
    sure = Segmenter.load(shipped).segment(rgb).confidence
    assert ros.set(NODE, min_confidence=0.9).successful
    assert ((node.mask(rgb) == 255) == (sure < 230)).mean() > 0.99
    assert (pixels(eventually(lambda: confidences and confidences[-1])) == sure).all()
    assert ros.set(NODE, min_confidence=-1.0).successful
    assert 255 not in node.mask(rgb)
    assert not ros.set(NODE, min_confidence=2.0).successful


def test_the_overlay_names_classes_and_onnx_at_another_size_works(running, ros):
    node = running(backend="onnx", working_size=64)
    pictures = ros.collect(Image, f"{NODE}/debug_image")
    eventually(node.node.debug_wanted)
    node.mask(coloured_scene(COLOURS, 7)[0])
    picture = eventually(lambda: pictures and pictures[-1])
    assert picture.width == 640
    assert picture.height > 480  # the image, and names below it


def test_onda_follows_the_stream_when_it_is_asked_to(running, ros):
    node = running(adapt=True, frames_per_update=2, confidence_drop=0.0)
    statuses = ros.collect(AdaptationStatus, f"{NODE}/adaptation")
    for seed in range(8):
        node.mask((coloured_scene(COLOURS, seed)[0] // 3).astype(np.uint8))
        eventually(node.node.settled)
    eventually(lambda: statuses and statuses[-1].updates > 0, "an update")
    assert ros.call(Trigger, f"{NODE}/reset", Trigger.Request()).success


def test_labels_are_latched_where_vision_msgs_is(running, ros):
    node = running()
    assert ("labels" in node.node.outputs()) == vision_messages.AVAILABLE
    assert labels(node.knowledge()) == BEFORE
    assert node.knowledge().classes[1].exemplars == 4  # reference frames


def test_a_class_is_learned_while_frames_go_on_although_its_process_is_killed(
    running, ros, tmp_path
):
    # It is to be learned in a moment: how well is not looked at.
    node = running(learning_iterations=120, max_class_loss=1.0, max_accuracy_loss=1.0)
    learning = ros.collect(LearningStatus, f"{NODE}/learning")
    known = ros.collect(KnowledgeBase, f"{NODE}/knowledge")
    client = ActionClient(ros.client, LearnSegment, f"{NODE}/learn_segment")
    assert client.wait_for_server(60.0)
    images, masks = yellow_things(6)
    goal = LearnSegment.Goal(label="yellow", images=images, masks=masks)
    sent = client.send_goal_async(goal)
    handle = eventually(lambda: sent.done() and sent.result())
    assert handle.accepted
    result = handle.get_result_async()
    training = LearningStatus.STATE_TRAINING
    first = eventually(
        lambda: next((s for s in learning if s.state == training), None), "training"
    )
    rgb, _ = coloured_scene(YELLOW, 300)
    assert node.mask(rgb).max() <= 3
    assert node.add("Yellow").result == AddSegmentClass.Response.RESULT_LABEL_EXISTS
    forget = ForgetClass.Request(label="red")
    answer = ros.call(ForgetClass, f"{NODE}/forget_class", forget)
    assert answer.result == ForgetClass.Response.RESULT_BUSY
    job = tmp_path / "base/jobs" / first.job_id
    if (pid := _holder(job / _LOCK)) is not None:  # unless it was quicker
        os.kill(pid, signal.SIGKILL)
    ended = eventually(lambda: result.done() and result.result().result, "learned", 240.0)
    assert (ended.result, ended.message) == (LearnSegment.Result.RESULT_OK, "")
    assert ended.knowledge_version == 2
    assert ended.accuracy_before > 0.5
    eventually(lambda: known and labels(known[-1]) == [*BEFORE, "yellow"])
    assert node.mask(rgb).max() <= 4
    assert node.node.session.in_use.segmenter.labels[-1] == "yellow"

    # It can be undone, and what is undone as well.
    forget = ForgetClass.Request(label="green")
    answer = ros.call(ForgetClass, f"{NODE}/forget_class", forget)
    assert (answer.result, answer.knowledge_version) == (0, 3)
    assert labels(node.knowledge()) == ["background", "red", "blue", "yellow"]
    request = RestoreKnowledge.Request(version=1)
    assert ros.call(RestoreKnowledge, f"{NODE}/restore_knowledge", request).result == 0
    assert labels(node.knowledge()) == BEFORE
    versions = ros.call(ListVersions, f"{NODE}/list_versions", ListVersions.Request()).versions
    assert [v.reason for v in versions] == [
        "shipped", "learned 'yellow'", "forgot 'green'", "version 1 restored"
    ]  # fmt: skip


def test_a_class_is_renamed_and_keeps_its_number(running, ros):
    node = running()
    rgb, _ = coloured_scene(COLOURS, 7)
    before = node.mask(rgb)

    def rename(label, new):
        request = RenameClass.Request(label=label, new_label=new)
        return ros.call(RenameClass, f"{NODE}/rename_class", request)

    answer = rename("green", "olive")
    assert (answer.result, answer.knowledge_version) == (0, 2)
    assert labels(node.knowledge()) == ["background", "red", "olive", "blue"]
    assert (node.mask(rgb) == before).all()
    refused = {
        ("green", "lime"): "UNKNOWN_LABEL",
        ("background", "lime"): "UNKNOWN_LABEL",
        ("olive", "Red"): "LABEL_EXISTS",
        ("olive", "a/b"): "INVALID_LABEL",
    }
    for (label, new), code in refused.items():
        answer = rename(label, new)
        assert answer.result == getattr(answer, f"RESULT_{code}"), (label, new)


@pytest.mark.parametrize(
    ("label", "result"),
    [("Red", "LABEL_EXISTS"), ("background", "LABEL_EXISTS"), ("../x", "INVALID_LABEL")],
)
def test_a_label_that_cannot_be_learned_is_refused(running, label, result):
    found = running().add(label)
    assert found.result == getattr(AddSegmentClass.Response, f"RESULT_{result}")
    assert (found.job_id, bool(found.message)) == ("", True)


def test_a_rejected_class_changes_nothing_and_is_told_in_diagnostics(running, ros):
    node = running(learning_iterations=1)  # nothing can be learned in one step
    status = ros.diagnostics(NODE)
    assert node.add("yellow").result == 0
    told = "learning 'yellow' rejected: 0 %, not 10 %, of 'yellow'"
    eventually(lambda: (s := status()) and told in s.message, "rejected", 240.0)
    assert values(status())["classes"] == "3"
    assert node.knowledge().version == 1


def test_a_checkpoint_that_is_none_is_told_in_one_line(ros, tmp_path):
    node = ros.add(SegmenterNode, checkpoint=str(tmp_path), knowledge_base=str(tmp_path / "base"))
    eventually(lambda: node.last_error)
    assert "has no file checkpoint.json" in node.last_error
