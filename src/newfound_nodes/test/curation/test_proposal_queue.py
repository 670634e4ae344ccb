# SPDX-License-Identifier: Apache-2.0
"""Proposals together: order, restarts, a full disk, decisions; on a real disk, by a set clock."""

import os
from pathlib import Path

import pytest

from newfound_core.errors import LockedError
from newfound_nodes.curation.proposal import Answer, Candidate, CurationRules, ProposalState
from newfound_nodes.curation.proposal_queue import ProposalQueue, RetryPolicy
from newfound_runtime.services import RequestError

FOUND = Answer("done", candidates=[Candidate("teapot", 0.8, "library")])
FETCHED = Answer("done", collection="teapot-1-0001", files=["a.jpg"])
QUEUED = Answer("done", job="000001")


class Office:
    """A queue, a clock, and what was told of changes."""

    def __init__(self, folder, **changes):
        self.folder, self.now, self.told = folder, 1000.0, []
        self.retry = RetryPolicy(**{"max_open": 3, **changes})
        self.queue = self.open()

    def open(self):
        return ProposalQueue(
            self.folder, CurationRules(), self.retry, self.told.append, lambda: self.now
        )

    def restart(self):
        """As after kill -9: only the disk is left."""
        self.queue.close()
        self.queue = self.open()
        return self.queue

    def states(self):
        return [proposal.state for proposal in self.queue.all()]

    def answer(self, answer):
        """The answer to the one step that is due; the step."""
        [step] = self.queue.due()
        self.queue.finished(step, answer)
        return step

    def learning(self):
        """With one proposal that is being learned."""
        self.queue.announced("u1", b"crop")
        self.answer(FOUND)
        self.queue.decide("u1", "confirm", "")
        self.answer(FETCHED)
        self.answer(QUEUED)
        return self.queue


@pytest.fixture
def office(tmp_path):
    made = Office(tmp_path / "state")
    yield made
    made.queue.close()


@pytest.fixture
def full_disk(monkeypatch):
    """A function that makes the disk full, and one that makes room."""
    real = os.fsync

    def refuse(descriptor):
        raise OSError(28, "No space left on device")

    yield lambda full: monkeypatch.setattr(os, "fsync", refuse if full else real)
    monkeypatch.setattr(os, "fsync", real)


def test_an_object_is_asked_about_once_however_often_it_is_announced(office):
    for _ in range(3):
        office.queue.announced("u1", b"crop")
    assert office.answer(FOUND).state == "asking"
    office.queue.announced("u1", b"crop")
    office.restart().announced("u1", b"crop")
    assert office.queue.due() == []
    assert office.states() == ["waiting"]


def test_the_loop_ends_with_a_known_class(office):
    queue = office.learning()
    [proposal] = queue.open()
    assert (proposal.state, proposal.job, proposal.label) == ("learning", "000001", "teapot")
    queue.job_changed("000009", "other", True, "")
    assert queue.job_changed("000001", "teapot", None, "").state == "learning"
    assert queue.job_changed("000001", "teapot", True, "").state == "learned"
    assert [p.state for p in office.told] == [
        "asking", "waiting", "fetching", "submitting", "learning", "learned",
    ]  # fmt: skip
    assert (queue.open(), queue.crop("u1")) == ([], b"")
    assert not list(Path(office.folder).glob("*.jpg"))


@pytest.mark.parametrize("state", ["asking", "fetching", "submitting"])
def test_a_step_that_was_interrupted_is_resumed(office, state):
    office.queue.announced("u1", b"crop")
    if state != "asking":
        office.answer(FOUND)
        office.queue.decide("u1", "confirm", "")
    if state == "submitting":
        office.answer(FETCHED)
    assert [step.state for step in office.queue.due()] == [state]
    [again] = office.restart().due()
    assert (again.state, office.queue.crop("u1")) == (state, b"crop")


def test_a_request_to_learn_that_a_crash_left_unanswered_is_recognised(office):
    office.learning().job_changed("000001", "teapot", False, "killed")
    office.queue.decide("u1", "confirm", "")
    office.answer(FETCHED)
    office.queue.due()  # asks the detector, which hears it; then we are killed
    [again] = office.restart().due()
    assert again.requests == 2
    office.queue.finished(again, Answer("exists", "it is being learned already"))
    assert office.states() == ["learning"]


def test_a_job_that_ended_while_nobody_listened_is_found_out_about(office):
    office.learning()
    office.restart()
    assert office.queue.due() == [], "news may come by itself"
    office.now += office.retry.status_timeout + 1
    [step] = office.queue.due()
    assert step.state == "learning"
    office.queue.finished(step, Answer("exists", "it is being learned"))
    assert office.queue.due() == [], "it has been heard of"
    office.queue.set_known(["mug", "teapot"])
    assert office.states() == ["learned"]


def test_attempts_are_spaced_ever_wider(office):
    office.queue.announced("u1", b"crop")
    waits = []
    for _ in range(8):
        office.answer(Answer("away", "nobody there"))
        before = office.now
        while not (steps := office.queue.due()):
            office.now += 0.5
        office.queue.finished(steps[0], Answer("away", "nobody there"))
        waits.append(office.now - before)
        office.now += 100
    assert waits == sorted(waits)
    assert waits[-1] == office.retry.max_delay


def test_one_request_of_a_kind_is_under_way_at_a_time(office):
    for name in ("u1", "u2"):
        office.queue.announced(name, b"crop")
    [first] = office.queue.due()
    assert office.queue.due() == []
    office.queue.finished(first, FOUND)
    assert [step.id for step in office.queue.due()] == ["u2"]


def test_more_objects_than_may_be_open_have_to_wait(office):
    for number in range(5):
        office.queue.announced(f"u{number}", b"crop")
    assert (len(office.queue.open()), office.queue.ignored) == (3, 2)
    office.queue.unknown_changed("u0", ProposalState.EXPIRED, "")
    office.queue.announced("u4", b"crop")
    assert [p.id for p in office.queue.open()] == ["u1", "u2", "u4"]


def test_decisions_that_cannot_be_taken_have_a_code(office):
    office.queue.announced("u1", b"crop")

    def code(*decision):
        with pytest.raises(RequestError) as refused:
            office.queue.decide(*decision)
        return refused.value.code

    assert code("u9", "confirm", "") == "UNKNOWN_ID"
    assert code("u1", "confirm", "") == "INVALID_LABEL", "nothing is proposed yet"
    assert code("u1", "correct", "") == "INVALID_LABEL"
    assert code("u1", "correct", "../../etc") == "INVALID_LABEL"
    assert code("u1", "correct", "x" * 10_000) == "INVALID_LABEL"
    office.answer(FOUND)
    assert code("u1", "confirm", "vase") == "INVALID_DECISION"
    assert office.queue.decide("u1", "correct", "vase") == "vase"
    assert code("u1", "correct", "kettle") == "ALREADY_DECIDED"
    assert code("u1", "dismiss", "") == "ALREADY_DECIDED"


def test_a_person_need_not_wait_for_the_web(office):
    office.queue.announced("u1", b"crop")
    [step] = office.queue.due()
    assert office.queue.decide("u1", "correct", "kettle") == "kettle"
    office.queue.finished(step, FOUND)  # too late
    [proposal] = office.queue.open()
    assert (proposal.state, proposal.label, proposal.candidates) == ("fetching", "kettle", ())


def test_what_was_dismissed_is_told_again_to_a_detector_that_has_forgotten(office):
    office.queue.announced("u1", b"crop")
    assert office.queue.decide("u1", "dismiss", "") == ""
    office.answer(Answer("done"))
    assert office.states() == ["dismissed"]
    office.restart().announced("u1", b"crop")
    assert office.answer(Answer("done")).state == "dismissing"
    assert office.states() == ["dismissed"]


def test_what_is_named_at_the_detector_needs_no_asking(office):
    for name in ("u1", "u2", "u3"):
        office.queue.announced(name, b"crop")
    office.queue.unknown_changed("u1", ProposalState.LEARNING, "kettle")
    office.queue.unknown_changed("u2", ProposalState.DISMISSED, "")
    office.queue.unknown_changed("u3", ProposalState.EXPIRED, "")
    office.queue.unknown_changed("u9", ProposalState.LEARNED, "other")
    assert office.states() == ["learning", "dismissed", "expired"]
    office.queue.job_changed("000004", "kettle", False, "no")
    assert office.states()[0] == "waiting"


def test_a_label_that_is_known_is_not_sent_to_the_detector(office):
    office.queue.set_known(["teapot"])
    office.queue.announced("u1", b"crop")
    office.answer(FOUND)
    office.queue.decide("u1", "confirm", "")
    office.answer(FETCHED)
    assert office.queue.due() == []
    [proposal] = office.queue.open()
    assert proposal.state == "waiting"
    assert "known already" in proposal.message


def test_on_a_full_disk_nothing_changes_and_it_goes_on_when_there_is_room(office, full_disk):
    office.queue.announced("u1", b"crop")
    office.answer(FOUND)
    full_disk(True)
    office.queue.announced("u2", b"crop")
    with pytest.raises(RequestError) as refused:
        office.queue.decide("u1", "confirm", "")
    assert refused.value.code == "STORAGE"
    assert office.states() == ["waiting"]
    assert "No space left" in office.queue.storage_error
    full_disk(False)
    office.queue.announced("u2", b"crop")
    assert office.queue.decide("u1", "confirm", "") == "teapot"
    assert office.states() == ["fetching", "asking"]
    assert office.queue.storage_error == ""


def test_an_answer_that_cannot_be_written_is_asked_for_again(office, full_disk):
    office.queue.announced("u1", b"crop")
    [step] = office.queue.due()
    full_disk(True)
    office.queue.finished(step, FOUND)
    assert office.queue.due() == []
    office.now += 10
    full_disk(False)
    office.answer(FOUND)
    assert office.states() == ["waiting"]


def test_a_damaged_file_is_set_aside_and_reported(office):
    for name in ("u1", "u2"):
        office.queue.announced(name, b"crop")
    (office.folder / "u1.json").write_text('{"format": 1, "id": ')
    (office.folder / ".u3.json.part1").write_text("left by a crash")
    queue = office.restart()
    assert [p.id for p in queue.all()] == ["u2"]
    assert "u1 is damaged" in queue.warnings[0]
    assert (office.folder / "u1.damaged").exists()
    assert not list(office.folder.glob(".*"))


def test_a_second_desk_on_the_same_folder_refuses(office):
    with pytest.raises(LockedError):
        office.open()


def test_ids_that_could_be_paths_are_ignored(office):
    for name in ("../u1", "", "a/b", ".", "x" * 100):
        office.queue.announced(name, b"crop")
    office.queue.announced("u1", b"")  # nothing to show to anybody
    assert office.queue.all() == []
