# SPDX-License-Identifier: Apache-2.0
"""Proposals together: order, restarts, a full disk, decisions; on a real disk, by a set clock."""

import json
import os
from pathlib import Path

import pytest

from newfound_core.errors import LockedError
from newfound_nodes.curation.proposal import (
    Answer,
    Candidate,
    CurationRules,
    Evidence,
    ProposalState,
)
from newfound_nodes.curation.proposal_queue import ProposalQueue, QuestionBudget, RetryPolicy
from newfound_runtime.services import RequestError

FOUND = Answer("done", candidates=[Candidate("teapot", 0.8, "library")])
FETCHED = Answer("done", collection="teapot-1-0001", files=["a.jpg"])
QUEUED = Answer("done", job="000001")


class Office:
    """A queue, a clock, and what was told of changes."""

    def __init__(self, folder, **changes):
        self.folder, self.now, self.told = folder, 1000.0, []
        self.since_1970 = 1e9
        self.retry, self.budget = RetryPolicy(**changes), QuestionBudget(max_open=3)
        self.queue = self.open()

    def open(self):
        return ProposalQueue(
            self.folder,
            CurationRules(),
            self.retry,
            self.told.append,
            clock=lambda: self.now,
            budget=self.budget,
            now=self.time,
        )

    def time(self):
        self.since_1970 += 1e-3
        return self.since_1970

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


def test_what_is_beyond_the_open_questions_waits_and_is_asked_when_one_is_answered(office):
    for number in range(5):
        office.queue.announced(f"u{number}", b"crop")
    assert [p.id for p in office.queue.open()] == ["u0", "u1", "u2"]
    assert [p.id for p in office.queue.backlog()] == ["u3", "u4"]
    office.queue.due()
    assert len(office.queue.backlog()) == 2, "nobody has answered"
    office.queue.decide("u1", "dismiss", "")
    office.queue.due()
    assert [p.id for p in office.queue.backlog()] == ["u4"]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (Evidence(50, 60.0, 0.9), Evidence(5, 60.0, 0.9)),
        (Evidence(20, 200.0, 0.9), Evidence(20, 30.0, 0.9)),
        (Evidence(20, 60.0, 1.0), Evidence(20, 60.0, 0.7)),
    ],
    ids=["more frequent", "larger", "more stable"],
)
def test_the_more_frequent_the_larger_and_the_more_stable_object_is_asked_about_first(
    office, better, worse
):
    office.queue.budget = QuestionBudget(delay=1000.0)
    office.queue.announced("u1", b"crop", worse)
    office.queue.announced("u2", b"crop", better)
    assert [p.id for p in office.queue.backlog()] == ["u2", "u1"]
    assert 0 < worse.priority < better.priority < 1


def test_the_rank_in_the_backlog_follows_what_the_detector_reports(office):
    office.queue.budget = QuestionBudget(delay=1000.0)
    office.queue.announced("u1", b"crop", Evidence(8))
    office.queue.announced("u2", b"crop", Evidence(5))
    office.queue.announced("u2", b"crop", Evidence(80))
    assert [p.id for p in office.restart().backlog()] == ["u2", "u1"], "also on disk"


def test_questions_per_minute_are_limited_across_a_restart(office):
    office.budget = office.queue.budget = QuestionBudget(per_minute=2, max_open=100)
    for number in range(5):
        office.queue.announced(f"u{number}", b"crop")
    asked = lambda: sorted(p.id for p in office.queue.open())  # noqa: E731
    assert asked() == ["u0", "u1"]
    office.since_1970 += 30
    assert [step.id for step in office.restart().due()] == ["u0"]
    assert asked() == ["u0", "u1"], "a restart is no new minute"
    office.since_1970 += 31
    office.queue.due()
    assert asked() == ["u0", "u1", "u2", "u3"]
    assert office.queue.crop("u4") == b"crop"


@pytest.mark.parametrize(
    ("budget", "ages", "allowed"),
    [
        (QuestionBudget(per_minute=0.5), [90], False),
        (QuestionBudget(per_minute=0.5), [121], True),
        (QuestionBudget(per_minute=3), [1, 50, 59], False),
        (QuestionBudget(per_minute=3), [1, 50, 61], True),
        (QuestionBudget(per_minute=1), [-1e6], True),  # the clock was set back since
        (QuestionBudget(), [0] * 100, True),
    ],
)
def test_a_budget_counts_the_questions_of_the_last_minute_or_of_the_time_for_one(
    budget, ages, allowed
):
    assert budget.allows([1e9 - age for age in ages], 0, 1e9) is allowed


def test_an_object_waits_for_a_moment_before_it_is_asked_about(office):
    office.queue.budget = QuestionBudget(delay=2.0)
    office.queue.announced("u1", b"crop")
    assert office.queue.due() == []
    office.since_1970 += 2.1
    assert [step.state for step in office.queue.due()] == ["asking"]


def test_a_person_may_name_what_is_not_asked_yet(office):
    office.queue.budget = QuestionBudget(delay=1000.0)
    office.queue.announced("u1", b"crop")
    assert office.queue.decide("u1", "correct", "kettle") == "kettle"
    assert office.states() == ["fetching"]


def test_the_backlog_is_limited_and_the_least_worth_asking_is_dropped(office, monkeypatch):
    monkeypatch.setattr("newfound_nodes.curation.proposal_queue.BACKLOG_KEPT", 2)
    office.queue.budget = QuestionBudget(delay=1000.0)
    for number in range(3):
        office.queue.announced(f"u{number}", b"crop", Evidence(9 - number))
    assert [p.id for p in office.queue.backlog()] == ["u0", "u1"]
    assert office.queue.ignored == 1
    assert not (office.folder / "u2.jpg").exists()


def test_of_two_objects_that_are_one_only_one_is_asked_about(office):
    office.queue.announced("u1", b"crop")
    office.answer(FOUND)
    office.queue.announced("u2", b"other")
    office.queue.unknown_merged("u2", "u1")
    assert office.states() == ["waiting", "merged"]
    assert office.queue.due() == []
    office.queue.unknown_merged("u2", "u1")  # again, or of what was never asked: nothing
    office.queue.unknown_merged("u9", "u1")
    office.queue.unknown_merged("u1", "../u1")
    assert office.states() == ["waiting", "merged"]


def test_a_question_and_its_answer_go_over_to_the_object_that_stays(office):
    office.queue.announced("u2", b"crop")
    office.answer(FOUND)
    office.queue.unknown_merged("u2", "u1")  # which was never heard of
    [question] = office.restart().open()
    assert (question.id, question.state, office.queue.crop("u1")) == ("u1", "waiting", b"crop")
    assert question.candidates[0].label == "teapot"
    office.queue.announced("u3", b"crop")
    office.queue.decide("u3", "correct", "kettle")
    office.queue.unknown_merged("u3", "u1")
    [decided] = office.queue.open()
    assert (decided.id, decided.state, decided.label) == ("u1", "fetching", "kettle")


def test_a_dismissal_goes_over_to_the_object_that_stays(office):
    for name in ("u1", "u2"):
        office.queue.announced(name, b"crop")
    office.queue.decide("u2", "dismiss", "")
    office.queue.unknown_merged("u2", "u1")
    assert {p.id: str(p.state) for p in office.queue.all()} == {"u1": "dismissing", "u2": "merged"}


def test_a_proposal_of_the_version_before_is_read(office):
    office.queue.announced("u1", b"crop")
    path = office.folder / "u1.json"
    values = json.loads(path.read_text())
    del values["evidence"], values["asked"]
    path.write_text(json.dumps(values))
    [proposal] = office.restart().open()
    assert (proposal.id, proposal.evidence, proposal.asked) == ("u1", Evidence(), 0.0)


def test_decisions_that_cannot_be_taken_have_a_code(office):
    office.queue.announced("u1", b"crop")

    def code(*decision):
        with pytest.raises(RequestError) as refused:
            office.queue.decide(*decision)
        return refused.value.code

    assert code("u9", "confirm", "") == "UNKNOWN_ID"
    assert code("u1", "confirm", "") == "INVALID_LABEL", "nothing is proposed yet"
    assert code("u1", "refuse", "") == "INVALID_DECISION"
    assert code("u1", "correct", "") == "INVALID_LABEL"
    assert code("u1", "correct", "../../etc") == "INVALID_LABEL"
    assert code("u1", "correct", "x" * 10_000) == "INVALID_LABEL"
    office.answer(FOUND)
    assert code("u1", "confirm", "vase") == "INVALID_DECISION"
    assert office.queue.decide("u1", "correct", "vase") == "vase"
    assert code("u1", "correct", "kettle") == "ALREADY_DECIDED"
    assert code("u1", "dismiss", "") == "ALREADY_DECIDED"


def test_names_that_are_refused_are_asked_for_no_more_not_even_after_a_restart(office):
    office.queue.announced("u1", b"crop")
    office.answer(FOUND)
    assert office.queue.decide("u1", "refuse", "") == ""
    [proposal] = office.restart().open()
    assert (proposal.state, proposal.candidates, proposal.refused) == ("asking", (), ("teapot",))
    office.answer(Answer("done", candidates=[Candidate("vase", 0.3, "library")]))
    office.queue.decide("u1", "refuse", "")
    assert office.answer(Answer("done")).refused == ("teapot", "vase")
    [proposal] = office.queue.open()
    assert proposal.message.startswith("no label was found")
    assert office.queue.decide("u1", "correct", "teapot") == "teapot", "a person may think again"


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


def test_views_are_added_to_a_known_class_if_the_person_says_so(office):
    queue = office.queue
    queue.set_known(["teapot"])
    queue.announced("u1", b"crop")
    office.answer(FOUND)
    queue.decide("u1", "correct", "teapot", extend=True)
    office.answer(FETCHED)
    step = office.answer(QUEUED)
    assert step.extend
    queue.set_known(["teapot", "mug"])  # another class was learned: it is not ours
    assert office.states() == [ProposalState.LEARNING]
    office.restart()
    office.queue.job_changed("000001", "teapot", True, "")
    assert office.states() == [ProposalState.LEARNED]
