# SPDX-License-Identifier: Apache-2.0
"""Proposals together: order, restarts, a full disk, decisions; on a real disk, by a set clock."""

import os
from pathlib import Path

import pytest

from newfound_core.errors import LockedError
from newfound_nodes.curation.decision import RefusedError
from newfound_nodes.curation.desk import Desk, Patience
from newfound_nodes.curation.proposal import Answer, Candidate, Rules

FOUND = Answer("done", candidates=[Candidate("teapot", 0.8, "library")])
FETCHED = Answer("done", collection="teapot-1-0001", files=["a.jpg"])
QUEUED = Answer("done", job="000001")


class Office:
    """A desk, a clock, and what was told of changes."""

    def __init__(self, folder, **changes):
        self.folder, self.now, self.told = folder, 1000.0, []
        self.patience = Patience(**{"max_open": 3, **changes})
        self.desk = self.open()

    def open(self):
        return Desk(self.folder, Rules(), self.patience, self.told.append, lambda: self.now)

    def restart(self):
        """As after kill -9: only the disk is left."""
        self.desk.close()
        self.desk = self.open()
        return self.desk

    def phases(self):
        return [proposal.phase for proposal in self.desk.all()]

    def answer(self, answer):
        """The answer to the one step that is due; the step."""
        [step] = self.desk.due()
        self.desk.finished(step, answer)
        return step

    def learning(self):
        """With one proposal that is being learned."""
        self.desk.announced("u1", b"crop")
        self.answer(FOUND)
        self.desk.decide("u1", "confirm", "")
        self.answer(FETCHED)
        self.answer(QUEUED)
        return self.desk


@pytest.fixture
def office(tmp_path):
    made = Office(tmp_path / "state")
    yield made
    made.desk.close()


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
        office.desk.announced("u1", b"crop")
    assert office.answer(FOUND).phase == "asking"
    office.desk.announced("u1", b"crop")
    office.restart().announced("u1", b"crop")
    assert office.desk.due() == []
    assert office.phases() == ["waiting"]


def test_the_loop_ends_with_a_known_class(office):
    desk = office.learning()
    [proposal] = desk.open()
    assert (proposal.phase, proposal.job, proposal.label) == ("learning", "000001", "teapot")
    desk.job_told("000009", "other", True, "")
    assert desk.job_told("000001", "teapot", None, "").phase == "learning"
    assert desk.job_told("000001", "teapot", True, "").phase == "learned"
    assert [p.phase for p in office.told] == [
        "asking", "waiting", "fetching", "submitting", "learning", "learned",
    ]  # fmt: skip
    assert (desk.open(), desk.crop("u1")) == ([], b"")
    assert not list(Path(office.folder).glob("*.jpg"))


@pytest.mark.parametrize("phase", ["asking", "fetching", "submitting"])
def test_a_step_that_was_interrupted_is_resumed(office, phase):
    office.desk.announced("u1", b"crop")
    if phase != "asking":
        office.answer(FOUND)
        office.desk.decide("u1", "confirm", "")
    if phase == "submitting":
        office.answer(FETCHED)
    assert [step.phase for step in office.desk.due()] == [phase]
    [again] = office.restart().due()
    assert (again.phase, office.desk.crop("u1")) == (phase, b"crop")


def test_a_request_to_learn_that_a_crash_left_unanswered_is_recognised(office):
    office.learning().job_told("000001", "teapot", False, "killed")
    office.desk.decide("u1", "confirm", "")
    office.answer(FETCHED)
    office.desk.due()  # asks the detector, which hears it; then we are killed
    [again] = office.restart().due()
    assert again.requests == 2
    office.desk.finished(again, Answer("exists", "it is being learned already"))
    assert office.phases() == ["learning"]


def test_a_job_that_ended_while_nobody_listened_is_found_out_about(office):
    office.learning()
    office.restart()
    assert office.desk.due() == [], "news may come by itself"
    office.now += office.patience.silence + 1
    [step] = office.desk.due()
    assert step.phase == "learning"
    office.desk.finished(step, Answer("exists", "it is being learned"))
    assert office.desk.due() == [], "it has been heard of"
    office.desk.knows(["mug", "teapot"])
    assert office.phases() == ["learned"]


def test_attempts_are_spaced_ever_wider(office):
    office.desk.announced("u1", b"crop")
    waits = []
    for _ in range(8):
        office.answer(Answer("away", "nobody there"))
        before = office.now
        while not (steps := office.desk.due()):
            office.now += 0.5
        office.desk.finished(steps[0], Answer("away", "nobody there"))
        waits.append(office.now - before)
        office.now += 100
    assert waits == sorted(waits)
    assert waits[-1] == office.patience.longest_wait


def test_one_request_of_a_kind_is_under_way_at_a_time(office):
    for name in ("u1", "u2"):
        office.desk.announced(name, b"crop")
    [first] = office.desk.due()
    assert office.desk.due() == []
    office.desk.finished(first, FOUND)
    assert [step.id for step in office.desk.due()] == ["u2"]


def test_more_objects_than_may_be_open_have_to_wait(office):
    for number in range(5):
        office.desk.announced(f"u{number}", b"crop")
    assert (len(office.desk.open()), office.desk.turned_away) == (3, 2)
    office.desk.named_elsewhere("u0", "expired", "")
    office.desk.announced("u4", b"crop")
    assert [p.id for p in office.desk.open()] == ["u1", "u2", "u4"]


def test_decisions_that_cannot_be_taken_have_a_code(office):
    office.desk.announced("u1", b"crop")

    def code(*decision):
        with pytest.raises(RefusedError) as refused:
            office.desk.decide(*decision)
        return refused.value.code

    assert code("u9", "confirm", "") == "UNKNOWN_ID"
    assert code("u1", "confirm", "") == "INVALID_LABEL", "nothing is proposed yet"
    assert code("u1", "correct", "") == "INVALID_LABEL"
    assert code("u1", "correct", "../../etc") == "INVALID_LABEL"
    assert code("u1", "correct", "x" * 10_000) == "INVALID_LABEL"
    office.answer(FOUND)
    assert code("u1", "confirm", "vase") == "INVALID_DECISION"
    assert office.desk.decide("u1", "correct", "vase") == "vase"
    assert code("u1", "correct", "kettle") == "ALREADY_DECIDED"
    assert code("u1", "dismiss", "") == "ALREADY_DECIDED"


def test_a_person_need_not_wait_for_the_web(office):
    office.desk.announced("u1", b"crop")
    [step] = office.desk.due()
    assert office.desk.decide("u1", "correct", "kettle") == "kettle"
    office.desk.finished(step, FOUND)  # too late
    [proposal] = office.desk.open()
    assert (proposal.phase, proposal.label, proposal.candidates) == ("fetching", "kettle", ())


def test_what_was_dismissed_is_told_again_to_a_detector_that_has_forgotten(office):
    office.desk.announced("u1", b"crop")
    assert office.desk.decide("u1", "dismiss", "") == ""
    office.answer(Answer("done"))
    assert office.phases() == ["dismissed"]
    office.restart().announced("u1", b"crop")
    assert office.answer(Answer("done")).phase == "dismissing"
    assert office.phases() == ["dismissed"]


def test_what_is_named_at_the_detector_needs_no_asking(office):
    for name in ("u1", "u2", "u3"):
        office.desk.announced(name, b"crop")
    office.desk.named_elsewhere("u1", "learning", "kettle")
    office.desk.named_elsewhere("u2", "dismissed", "")
    office.desk.named_elsewhere("u3", "expired", "")
    office.desk.named_elsewhere("u9", "learned", "other")
    assert office.phases() == ["learning", "dismissed", "expired"]
    office.desk.job_told("000004", "kettle", False, "no")
    assert office.phases()[0] == "waiting"


def test_a_label_that_is_known_is_not_sent_to_the_detector(office):
    office.desk.knows(["teapot"])
    office.desk.announced("u1", b"crop")
    office.answer(FOUND)
    office.desk.decide("u1", "confirm", "")
    office.answer(FETCHED)
    assert office.desk.due() == []
    [proposal] = office.desk.open()
    assert proposal.phase == "waiting"
    assert "known already" in proposal.message


def test_on_a_full_disk_nothing_changes_and_it_goes_on_when_there_is_room(office, full_disk):
    office.desk.announced("u1", b"crop")
    office.answer(FOUND)
    full_disk(True)
    office.desk.announced("u2", b"crop")
    with pytest.raises(RefusedError) as refused:
        office.desk.decide("u1", "confirm", "")
    assert refused.value.code == "STORAGE"
    assert office.phases() == ["waiting"]
    assert "No space left" in office.desk.trouble
    full_disk(False)
    office.desk.announced("u2", b"crop")
    assert office.desk.decide("u1", "confirm", "") == "teapot"
    assert office.phases() == ["fetching", "asking"]
    assert office.desk.trouble == ""


def test_an_answer_that_cannot_be_written_is_asked_for_again(office, full_disk):
    office.desk.announced("u1", b"crop")
    [step] = office.desk.due()
    full_disk(True)
    office.desk.finished(step, FOUND)
    assert office.desk.due() == []
    office.now += 10
    full_disk(False)
    office.answer(FOUND)
    assert office.phases() == ["waiting"]


def test_a_damaged_file_is_set_aside_and_reported(office):
    for name in ("u1", "u2"):
        office.desk.announced(name, b"crop")
    (office.folder / "u1.json").write_text('{"format": 1, "id": ')
    (office.folder / ".u3.json.part1").write_text("left by a crash")
    desk = office.restart()
    assert [p.id for p in desk.all()] == ["u2"]
    assert "u1 is damaged" in desk.complaints[0]
    assert (office.folder / "u1.damaged").exists()
    assert not list(office.folder.glob(".*"))


def test_a_second_desk_on_the_same_folder_refuses(office):
    with pytest.raises(LockedError):
        office.open()


def test_ids_that_could_be_paths_are_ignored(office):
    for name in ("../u1", "", "a/b", ".", "x" * 100):
        office.desk.announced(name, b"crop")
    office.desk.announced("u1", b"")  # nothing to show to anybody
    assert office.desk.all() == []
