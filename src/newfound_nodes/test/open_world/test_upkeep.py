# SPDX-License-Identifier: Apache-2.0
"""Renaming, cleaning up, merging, versions, stored views: a real detector and its services."""

import array

import cv2
import pytest
from sensor_msgs.msg import CompressedImage, Image

from newfound_core.testing import tiny_open_world
from newfound_msgs import msg, srv
from newfound_nodes.open_world.node import OpenWorldDetector
from newfound_runtime.testing import eventually, image

NODE = "/open_world_detector"
YELLOW = (250, 250, 5)


@pytest.fixture
def robot(ros, tmp_path):
    return ros.started(
        OpenWorldDetector,
        checkpoint=str(tiny_open_world(tmp_path / "model")),
        knowledge_base=str(tmp_path / "knowledge"),
        proposer="whole_image",
        announce_after=3,
        same_similarity=0.998,
        same_place_similarity=0.998,
        learning_threads=1,
        learning_niceness=0,
        max_accuracy_loss=1.0,
        max_class_loss=1.0,
    )


@pytest.fixture
def call(ros):
    def call(kind, service, **fields):
        return ros.call(kind, f"{NODE}/{service}", kind.Request(**fields))

    return call


def jpeg(pixels):
    data = cv2.imencode(".png", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))[1].tobytes()
    return CompressedImage(format="png", data=data)


def labels(robot):
    return list(robot.session.in_use.knowledge.labels)


def test_a_class_is_renamed_and_stays_what_it_was(robot, call):
    before = robot.session.remembered()
    assert call(srv.RenameClass, "rename_class", label="red", new_label="crimson").result == 0
    assert labels(robot) == ["crimson", "green", "blue"]
    [known, *_] = call(srv.ListClasses, "list_classes").knowledge.classes
    assert (known.label, known.origin) == ("crimson", msg.KnownClass.ORIGIN_SHIPPED)
    after = robot.session.remembered()
    assert [s.image for s in after.samples("crimson")] == [s.image for s in before.samples("red")]
    refused = {
        ("red", "scarlet"): "UNKNOWN_LABEL",
        ("crimson", "Green"): "LABEL_EXISTS",
        ("crimson", "crimson"): "LABEL_EXISTS",
        ("crimson", "a/b"): "INVALID_LABEL",
        ("crimson", ""): "INVALID_LABEL",
    }
    for (label, new), code in refused.items():
        answer = call(srv.RenameClass, "rename_class", label=label, new_label=new)
        assert answer.result == getattr(answer, f"RESULT_{code}"), (label, new)


def test_versions_say_how_they_came_about_and_what_they_would_answer(robot, call):
    call(srv.RenameClass, "rename_class", label="red", new_label="crimson")
    call(srv.ForgetClass, "forget_class", label="green")
    versions = call(srv.ListVersions, "list_versions").versions
    assert [v.reason for v in versions] == [
        "shipped",
        "renamed 'red' to 'crimson'",
        "forgot 'green'",
    ]
    assert [v.in_use for v in versions] == [False, False, True]
    assert versions[0].labels == ["blue", "green", "red"]
    asked = {"versions": [0, versions[0].version], "limit": 3}
    answer = call(srv.ListExamples, "list_examples", **asked)
    assert answer.result == 0, answer.message
    found = answer.examples
    assert {each.label for each in found} == {"crimson", "blue"}
    assert all(len(each.image.data) == 0 for each in found)
    crimson = [each for each in found if each.label == "crimson"]
    assert len(crimson) == 3
    assert {tuple(each.answers) for each in crimson} == {("crimson", "red")}
    refused = call(srv.ListExamples, "list_examples", versions=[99])
    assert refused.result == refused.RESULT_UNKNOWN_VERSION
    refused = call(srv.ListExamples, "list_examples", label="green")
    assert refused.result == refused.RESULT_UNKNOWN_LABEL


def test_a_bad_picture_is_removed_and_the_class_learned_anew(robot, call):
    found = call(srv.ListExamples, "list_examples", label="red", images=True, limit=50).examples
    assert all(bytes(each.image.data).startswith(b"\x89PNG") for each in found)
    gone, count = found[0].id, len(found)
    mean = robot.session.in_use.knowledge.model.head.means.value[0].clone()
    answer = call(srv.RemoveExamples, "remove_examples", label="red", ids=[gone])
    assert answer.result == 0, answer.message
    again = call(srv.RemoveExamples, "remove_examples", label="red", ids=[found[1].id])
    assert again.result in (again.RESULT_LABEL_EXISTS, again.RESULT_OK)  # it is being learned
    eventually(lambda: not robot.session.jobs.busy, "learned")
    assert sorted(labels(robot)) == ["blue", "green", "red"]
    left = robot.session.remembered().samples("red")
    assert len(left) <= count - 1
    now = call(srv.ListExamples, "list_examples", label="red", limit=50).examples
    assert gone not in [each.id for each in now]
    index = labels(robot).index("red")
    assert not (robot.session.in_use.knowledge.model.head.means.value[index] == mean).all()
    for ids, code in ((["nothing"], "UNKNOWN_ID"), ([e.id for e in now], "BAD_IMAGES")):
        refused = call(srv.RemoveExamples, "remove_examples", label="red", ids=ids)
        assert refused.result == getattr(refused, f"RESULT_{code}")


def test_two_unknown_things_are_merged_by_a_person(ros, robot, call, square):
    camera = ros.publisher(Image, "/image")
    unknowns = ros.collect(msg.UnknownObject, f"{NODE}/unknowns")
    ros.connected(camera)
    number = 0

    def show(colour):
        nonlocal number
        before = {entry.id for entry in robot.session.unknowns()}
        robot.session._unknowns._tracks.clear()  # nothing was to be seen for a while

        def announced():
            nonlocal number
            number += 1
            pixels = square(colour, number)
            message = image(pixels.shape[1], pixels.shape[0], number)
            message.data = array.array("B", pixels.tobytes())
            camera.publish(message)
            return {entry.id for entry in robot.session.unknowns()} - before

        return eventually(announced, "announced").pop()

    one, two = show(YELLOW), show((5, 250, 170))
    merged = call(srv.MergeUnknowns, "merge_unknowns", unknown_id=two, other_id=one)
    assert (merged.result, merged.unknown_id) == (0, one)
    assert [entry.id for entry in robot.session.unknowns()] == [one]
    told = eventually(lambda: [u for u in unknowns if u.state == u.STATE_MERGED], "told")
    assert (told[0].id, told[0].merged_into) == (two, one)
    again = call(srv.MergeUnknowns, "merge_unknowns", unknown_id=two, other_id=one)
    assert again.result == again.RESULT_UNKNOWN_ID
    nobody = call(srv.MergeUnknowns, "merge_unknowns", unknown_id=one, other_id="u0")
    assert nobody.result == nobody.RESULT_UNKNOWN_ID


def test_views_are_assessed_and_nothing_is_learned(robot, call, square):
    same = [jpeg(square(YELLOW, 1)) for _ in range(4)]
    answer = call(srv.AssessViews, "assess_views", images=same)
    assert list(answer.differs) == [True, False, False, False]
    assert answer.expected_accuracy == pytest.approx(1 / 3)
    assert answer.known_label == ""
    red = call(srv.AssessViews, "assess_views", images=[jpeg(square((220, 40, 40), 3))])
    assert red.known_label == "red"
    nothing = call(srv.AssessViews, "assess_views")
    assert nothing.expected_accuracy == 0.5
    broken = call(srv.AssessViews, "assess_views", images=[CompressedImage(data=b"x")])
    assert broken.result == broken.RESULT_BAD_IMAGES
    many = call(srv.AssessViews, "assess_views", images=[CompressedImage(data=b"x")] * 65)
    assert many.result == many.RESULT_BAD_IMAGES
    assert labels(robot) == ["red", "green", "blue"]


def test_a_job_that_is_not_there_is_not_cancelled(robot, call):
    answer = call(srv.CancelJob, "cancel_job", job_id="000001")
    assert answer.result == answer.RESULT_UNKNOWN_ID


def test_a_known_class_is_given_further_views_when_the_request_says_so(robot, call, square):
    images = [jpeg(square((225, 60, 50), number)) for number in range(4)]
    refused = call(srv.AddUnknownClass, "add_unknown_class", label="red", images=images)
    assert refused.result == refused.RESULT_LABEL_EXISTS
    request = {"label": "red", "images": images, "extend": True}
    assert call(srv.AddUnknownClass, "add_unknown_class", **request).result == 0
    before = robot.session.in_use.version
    eventually(lambda: robot.session.in_use.version > before, "extended")
    assert labels(robot) == ["red", "green", "blue"]
