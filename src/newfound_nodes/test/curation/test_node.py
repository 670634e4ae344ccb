# SPDX-License-Identifier: Apache-2.0
"""The node over DDS, between a detector and a web that do as they are told."""

import pytest
from rclpy.callback_groups import ReentrantCallbackGroup
from sensor_msgs.msg import CompressedImage

from newfound_msgs.msg import (
    FetchedImage,
    KnowledgeBase,
    KnownClass,
    LabelCandidate,
    LabelProposal,
    LabelProposals,
    LearningStatus,
    UnknownObject,
)
from newfound_msgs.srv import (
    AddUnknownClass,
    ConfirmLabel,
    DismissUnknown,
    FetchImages,
    QueryLabel,
)
from newfound_nodes.curation.node import Curator
from newfound_runtime.managed_node import LATCHED
from newfound_runtime.testing import ACTIVE, eventually, values

NODE, ASK = "/curator", ConfirmLabel.Request
TEAPOT = LabelCandidate(label="teapot", confidence=0.8, provider="library", span_share=0.5)


class World:
    """The other nodes: services that answer what `answers` holds, and never if that is None."""

    def __init__(self, ros):
        self.ros, self.asked = ros, []
        self.answers = {
            QueryLabel: QueryLabel.Response(candidates=[TEAPOT]),
            FetchImages: FetchImages.Response(result=FetchImages.Response.RESULT_NOTHING_FOUND),
            AddUnknownClass: AddUnknownClass.Response(job_id="000001"),
            DismissUnknown: DismissUnknown.Response(),
        }
        self.group = ReentrantCallbackGroup()
        self.unknowns = ros.publisher(UnknownObject, "/open_world_detector/unknowns")
        self.learning = ros.publisher(LearningStatus, "/open_world_detector/learning")
        self.knowledge = ros.client.create_publisher(
            KnowledgeBase, "/open_world_detector/knowledge", LATCHED
        )
        self.status = ros.collect(LabelProposal, f"{NODE}/status")
        self.latched = []
        ros.client.create_subscription(
            LabelProposals, f"{NODE}/proposals", self.latched.append, LATCHED
        )

    def offer(self, *kinds):
        """Let these services be there."""
        names = {
            QueryLabel: "/web_query/query_label",
            FetchImages: "/web_query/fetch_images",
            AddUnknownClass: "/open_world_detector/add_unknown_class",
            DismissUnknown: "/open_world_detector/dismiss_unknown",
        }
        for kind in kinds or names:
            self.ros.client.create_service(
                kind, names[kind], self.answer(kind), callback_group=self.group
            )

    def answer(self, kind):
        def callback(request, response):
            self.asked.append(request)
            return self.answers[kind] or response

        return callback

    def requests(self, kind):
        return [request for request in self.asked if isinstance(request, kind.Request)]

    def announce(self, unknown_id="u1", state=UnknownObject.STATE_WAITING, **facts):
        self.ros.connected(self.unknowns)
        crop = CompressedImage(format="jpeg", data=b"crop of " + unknown_id.encode())
        self.unknowns.publish(UnknownObject(id=unknown_id, state=state, crops=[crop], **facts))

    def told(self, state, message=""):
        self.learning.publish(
            LearningStatus(job_id="000001", label="teapot", state=state, message=message)
        )

    def becomes(self, state, unknown_id="u1"):
        """The newest status, once it is this one."""
        name = f"STATE_{state.upper()}"
        wanted = getattr(LabelProposal, name)
        own = lambda: [s for s in self.status if s.unknown_id == unknown_id]  # noqa: E731
        return eventually(
            lambda: own() and own()[-1].state == wanted and own()[-1], f"{unknown_id} {state}"
        )

    def decide(self, decision, unknown_id="u1", label=""):
        request = ASK(unknown_id=unknown_id, decision=decision, label=label)
        return self.ros.call(ConfirmLabel, f"{NODE}/confirm_label", request)


@pytest.fixture
def world(ros):
    return World(ros)


@pytest.fixture
def start(ros, tmp_path):
    def begin(**changes):
        parameters = {
            "state_folder": str(tmp_path / "state"),
            "image_folder": str(tmp_path / "images"),
            "delay": 0.05,
            "max_delay": 0.2,
            "attempts": 2,
            "question_delay": 0.0,
        }
        return ros.started(Curator, **parameters | changes)

    return begin


def test_an_object_is_asked_about_confirmed_and_learned(world, start):
    world.offer()
    start()
    world.announce()
    waiting = world.becomes("waiting")
    assert [c.label for c in waiting.candidates] == ["teapot"]
    shown = eventually(lambda: world.latched[-1].proposals)[0]
    assert (shown.unknown_id, bytes(shown.crop.data)) == ("u1", b"crop of u1")
    [asked] = world.requests(QueryLabel)
    assert bytes(asked.crop.data) == b"crop of u1"
    answer = world.decide(ASK.DECISION_CONFIRM)
    assert (answer.result, answer.label) == (answer.RESULT_OK, "teapot")
    assert world.becomes("learning").job_id == "000001"
    [request] = world.requests(AddUnknownClass)
    assert (request.label, request.unknown_id, len(request.images)) == ("teapot", "u1", 0)
    assert world.decide(ASK.DECISION_DISMISS).result == answer.RESULT_ALREADY_DECIDED
    world.told(LearningStatus.STATE_DONE)
    world.becomes("learned")
    eventually(lambda: not world.latched[-1].proposals, "no open proposal")
    world.announce()
    world.announce("u2")
    world.becomes("waiting", "u2")
    assert len(world.requests(QueryLabel)) == 2, "nothing is asked twice"


def test_all_views_are_sent_and_known_classes_are_not_asked_for(ros, world, start):
    world.offer()
    node = start()
    node.proposals.set_known(["mug", "claw_hammer"])
    ros.connected(world.unknowns)
    views = [CompressedImage(format="jpeg", data=f"view {n}".encode()) for n in range(7)]
    waiting = UnknownObject.STATE_WAITING
    world.unknowns.publish(UnknownObject(id="u1", state=waiting, crops=views))
    assert world.becomes("waiting").candidates[0].span_share == pytest.approx(0.5)
    [asked] = world.requests(QueryLabel)
    assert bytes(asked.crop.data) == b"view 0"
    assert [bytes(view.data) for view in asked.more_crops] == [
        b"view 1",
        b"view 2",
        b"view 3",
        b"view 4",
    ]
    assert asked.exclude == ["claw_hammer", "mug"]
    refused = ConfirmLabel.Request(unknown_id="u1", decision=ConfirmLabel.Request.DECISION_REFUSE)
    assert ros.call(ConfirmLabel, f"{NODE}/confirm_label", refused).result == 0
    eventually(lambda: len(world.requests(QueryLabel)) == 2, "asked again")
    proposed = world.answers[QueryLabel].candidates[0].label
    assert world.requests(QueryLabel)[1].exclude == sorted(["claw_hammer", "mug", proposed])


def test_fetched_images_are_read_from_the_common_folder(world, start, tmp_path):
    name = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae.jpg"  # of "foo"
    folder = tmp_path / "images" / "teapot-1f0c9a3b-0001"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(b"foo")
    files = [FetchedImage(file=file) for file in (name, "../../../etc/passwd")]
    world.answers[FetchImages] = FetchImages.Response(collection=folder.name, images=files)
    world.offer()
    start(auto_confirm=0.5)
    world.announce()
    world.becomes("learning")
    [request] = world.requests(AddUnknownClass)
    assert [bytes(image.data) for image in request.images] == [b"foo"]
    [asked] = world.requests(FetchImages)
    assert (asked.label, asked.max_images, bytes(asked.crop.data)) == ("teapot", 20, b"crop of u1")


def test_a_person_can_name_it_while_the_web_is_away(ros, world, start):
    start(fetch_images=0)
    diagnostics = ros.diagnostics(NODE)
    world.announce()
    message = world.becomes("asking").message
    eventually(lambda: world.status[-1].message, "a reason")
    assert "query_label is not there" in (message or world.status[-1].message)
    eventually(lambda: (s := diagnostics()) and "services missing" in s.message, "diagnostics")
    assert world.decide(ASK.DECISION_CONFIRM).result == ConfirmLabel.Response.RESULT_INVALID_LABEL
    assert world.decide(ASK.DECISION_CORRECT, label="kettle").label == "kettle"
    world.becomes("submitting")
    world.offer(AddUnknownClass)  # the detector comes up
    world.becomes("learning")


def test_services_that_do_not_answer_are_given_up(ros, world, start):
    def status_timeout(request, response):
        world.asked.append(request)
        raise RuntimeError("as a service that never answers")

    for kind, name in ((QueryLabel, "query_label"), (FetchImages, "fetch_images")):
        ros.client.create_service(
            kind, f"/web_query/{name}", status_timeout, callback_group=world.group
        )
    world.offer(AddUnknownClass)
    start(label_timeout=0.1, fetch_timeout=0.1, answer_timeout=0.5)
    world.announce()
    waiting = world.becomes("waiting")
    assert "did not answer in time" in waiting.message
    world.decide(ASK.DECISION_CORRECT, label="kettle")
    assert world.becomes("learning").images == 0, "learned from crops alone"


def test_a_job_that_is_rejected_is_brought_before_the_person_again(world, start):
    world.offer()
    start(fetch_images=0)
    world.announce()
    world.becomes("waiting")
    world.decide(ASK.DECISION_CONFIRM)
    world.becomes("learning")
    world.told(LearningStatus.STATE_REJECTED, "old classes lost 20 points")
    again = world.becomes("waiting")
    assert "old classes lost 20 points" in again.message
    world.answers[AddUnknownClass] = AddUnknownClass.Response(
        result=AddUnknownClass.Response.RESULT_LABEL_EXISTS, message="there is a kettle"
    )
    before = len(world.status)
    assert world.decide(ASK.DECISION_CORRECT, label="kettle").label == "kettle"
    eventually(lambda: any("there is a kettle" in s.message for s in world.status[before:]))
    assert world.becomes("waiting").label == ""


def test_a_dismissed_object_is_dismissed_at_the_detector(world, start):
    world.offer()
    start()
    world.announce()
    world.becomes("waiting")
    assert world.decide(ASK.DECISION_DISMISS).result == ConfirmLabel.Response.RESULT_OK
    world.becomes("dismissed")
    assert [request.unknown_id for request in world.requests(DismissUnknown)] == ["u1"]


def test_a_node_that_starts_again_goes_on_and_asks_nothing_twice(ros, world, start):
    world.offer()
    start()
    world.announce()
    world.becomes("waiting")
    for transition in ("deactivate", "cleanup"):
        assert ros.change(NODE, transition)
    assert world.decide(ASK.DECISION_CONFIRM).result == ConfirmLabel.Response.RESULT_NOT_READY
    world.latched.clear()
    for transition in ("configure", "activate"):
        assert ros.change(NODE, transition)
    [proposal] = eventually(lambda: world.latched and world.latched[-1].proposals)
    assert (proposal.state, proposal.candidates[0].label) == (proposal.STATE_WAITING, "teapot")
    world.announce()
    assert world.decide(ASK.DECISION_CONFIRM).label == "teapot"
    world.becomes("learning")
    assert len(world.requests(QueryLabel)) == 1
    world.knowledge.publish(KnowledgeBase(version=2, classes=[KnownClass(label="teapot")]))
    world.becomes("learned")


def test_a_second_curator_on_the_same_folder_stays_unconfigured(ros, start, tmp_path):
    start()
    ros.add(Curator, "second", state_folder=str(tmp_path / "state"), autostart=False)
    assert not ros.change("/second", "configure")
    assert ros.logged("is in use by another process")


def test_diagnostics_count_proposals(ros, world, start):
    world.offer()
    node = start()
    diagnostics = ros.diagnostics(NODE)
    world.announce()
    world.becomes("waiting")
    eventually(lambda: (s := diagnostics()) and "1 objects wait" in s.message, "diagnostics")
    assert values(diagnostics())["waiting"] == "1"
    assert node.state() == ACTIVE


def test_what_the_budget_does_not_allow_is_counted_listed_and_asked_later(ros, world, start):
    world.offer()
    start(questions_per_minute=1.0)
    world.announce("u1")
    world.becomes("waiting", "u1")
    world.announce("u2", sightings=5, stability=0.7)
    world.announce("u3", sightings=50, stability=0.9)
    world.announce("u4", sightings=5, stability=0.7)
    listed = eventually(lambda: (m := world.latched[-1]).waiting == 3 and m, "a backlog")
    assert list(listed.backlog) == ["u3", "u2", "u4"]
    assert list(listed.backlog_priorities) == sorted(listed.backlog_priorities, reverse=True)
    assert [p.unknown_id for p in listed.proposals] == ["u1"]
    world.announce("u4", UnknownObject.STATE_MERGED, merged_into="u2")
    world.becomes("merged", "u4")
    ros.set(NODE, questions_per_minute=2.0)
    world.becomes("waiting", "u3")
    assert len(world.requests(QueryLabel)) == 2
    last = eventually(lambda: (m := world.latched[-1]).waiting == 1 and m, "one waits")
    assert list(last.backlog) == ["u2"]
