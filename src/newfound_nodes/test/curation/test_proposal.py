# SPDX-License-Identifier: Apache-2.0
"""Every way in which a proposal goes on, without ROS and without a disk."""

from dataclasses import replace

import pytest

from newfound_nodes.curation.proposal import (
    Answer,
    Candidate,
    CurationRules,
    Proposal,
    ProposalState,
    answered,
    ask_again,
    decided,
    decided_label,
    dismissed,
    job_ended,
)
from newfound_runtime.services import RequestError

RULES = CurationRules(attempts=2)
TEAPOT, VASE = Candidate("teapot", 0.8, "library"), Candidate("vase", 0.2, "imagenet")
ASKING = Proposal("u1")
FETCHING = replace(ASKING, state=ProposalState.FETCHING, label="teapot", decided_by="person")
SUBMITTING = replace(FETCHING, state=ProposalState.SUBMITTING, requests=1)
LEARNING = replace(SUBMITTING, state=ProposalState.LEARNING, job="000001", requests=0)


def goes_on(proposal, outcome, known=(), rules=RULES, **answer):
    return answered(proposal, Answer(outcome, "because", **answer), rules, known)


def test_candidates_wait_for_a_person():
    after = goes_on(ASKING, "done", candidates=[TEAPOT, VASE])
    assert (after.state, after.label) == ("waiting", "")
    assert after.candidates == (TEAPOT, VASE)


def test_a_label_of_high_confidence_is_taken_if_that_is_wanted():
    sure = replace(RULES, auto_confirm=0.7)
    after = goes_on(ASKING, "done", rules=sure, candidates=[TEAPOT])
    assert (after.state, after.label, after.decided_by) == ("fetching", "teapot", "auto_confirm")
    after = goes_on(ASKING, "done", rules=replace(sure, fetch=False), candidates=[TEAPOT])
    assert after.state == "submitting"


@pytest.mark.parametrize(
    ("candidate", "limit", "known"),
    [
        (TEAPOT, 0.8, ()),  # not above
        (Candidate("teapot", 1.0, "library"), 1.0, ()),  # off
        (TEAPOT, 0.5, ("teapot",)),  # a known class that was not recognised, or is none
        (Candidate("AC/DC", 0.9, "web"), 0.5, ()),  # cannot be a label
    ],
)
def test_a_label_is_not_taken_unasked_if_there_is_doubt(candidate, limit, known):
    rules = replace(RULES, auto_confirm=limit)
    assert goes_on(ASKING, "done", known, rules, candidates=[candidate]).state == "waiting"


@pytest.mark.parametrize("outcome", ["refused", "failed"])
def test_without_a_proposal_a_person_has_to_say_it(outcome):
    once = replace(ASKING, attempts=1)
    after = goes_on(once, outcome)
    assert (after.state, after.attempts) == ("waiting", 0)
    assert "a person has to say it: because" in after.message


def test_a_failure_is_tried_again_so_often_and_an_absence_for_ever():
    first = goes_on(ASKING, "failed")
    assert (first.state, first.attempts, first.message) == ("asking", 1, "because")
    for outcome in ("away", "busy"):
        after = goes_on(first, outcome)
        assert (after.state, after.attempts) == ("asking", 1)


def test_fetched_images_go_along_to_the_detector():
    after = goes_on(FETCHING, "done", collection="teapot-1-0001", files=["a.jpg", "b.jpg"])
    assert (after.state, after.collection) == ("submitting", "teapot-1-0001")
    assert after.files == ("a.jpg", "b.jpg")


@pytest.mark.parametrize("outcome", ["refused", "failed", "away", "busy"])
def test_without_images_it_is_learned_from_crops_alone(outcome):
    after = goes_on(replace(FETCHING, attempts=1), outcome)
    assert (after.state, after.files) == ("submitting", ())
    assert after.message == "learned from crops alone: because"


def test_a_job_is_followed_to_its_end():
    after = goes_on(SUBMITTING, "done", job="000007")
    assert (after.state, after.job) == ("learning", "000007")
    assert job_ended(after, True, "").state == "learned"


def test_a_job_that_came_to_nothing_is_brought_before_the_person_again():
    after = job_ended(LEARNING, False, "old classes got worse")
    assert (after.state, after.label, after.job) == ("waiting", "", "")
    assert "old classes got worse" in after.message


@pytest.mark.parametrize("outcome", ["refused", "exists"])
def test_a_label_that_cannot_be_is_brought_before_the_person_again(outcome):
    after = goes_on(SUBMITTING, outcome)
    assert (after.state, after.label) == ("waiting", "")
    assert after.message == "'teapot' cannot be learned: because"


def test_a_label_that_exists_by_an_earlier_request_of_ours_is_being_learned():
    assert goes_on(replace(SUBMITTING, requests=2), "exists").state == "learning"


def test_a_full_queue_is_waited_for_and_forgets_the_request():
    after = goes_on(SUBMITTING, "busy")
    assert (after.state, after.requests, after.attempts) == ("submitting", 0, 0)


@pytest.mark.parametrize("proposal", [SUBMITTING, LEARNING])
def test_an_object_that_the_detector_has_removed_has_expired(proposal):
    assert goes_on(proposal, "gone").state == "expired"


def test_a_job_that_is_not_heard_of_is_looked_after():
    assert goes_on(LEARNING, "exists") == LEARNING, "it is at work"
    assert goes_on(LEARNING, "exists", known=["teapot"]).state == "learned"
    again = goes_on(LEARNING, "done", job="000002")
    assert (again.state, again.job, again.attempts) == ("learning", "000002", 1)
    assert goes_on(again, "done", job="000003").state == "waiting"
    assert goes_on(LEARNING, "away").state == "learning"
    assert goes_on(LEARNING, "refused").state == "waiting"


def test_a_dismissal_is_told_to_the_detector():
    telling = dismissed(ASKING)
    assert telling.state == "dismissing"
    assert goes_on(telling, "away").state == "dismissing"
    assert goes_on(telling, "done").state == "dismissed"
    assert goes_on(telling, "gone").state == "dismissed"


def test_a_new_decision_begins_afresh():
    waiting = ask_again(replace(LEARNING, attempts=1), "why")
    after = decided(waiting, "kettle", "person", RULES)
    assert (after.state, after.label, after.attempts, after.job) == ("fetching", "kettle", 0, "")


PROPOSED = Proposal("u1", ProposalState.WAITING, candidates=(Candidate("teapot", 0.8, "library"),))


def test_the_first_candidate_is_confirmed_whether_it_is_named_or_not():
    assert decided_label(PROPOSED, "confirm", "") == "teapot"
    assert decided_label(PROPOSED, "confirm", "teapot") == "teapot"
    assert decided_label(PROPOSED, "correct", "kettle") == "kettle"


@pytest.mark.parametrize(
    ("proposal", "decision", "label", "code"),
    [
        (PROPOSED, "confirm", "kettle", "INVALID_DECISION"),
        (Proposal("u1"), "confirm", "", "INVALID_LABEL"),
        (PROPOSED, "correct", "", "INVALID_LABEL"),
        (PROPOSED, "correct", "a/b", "INVALID_LABEL"),
    ],
)
def test_what_cannot_be_meant_is_refused(proposal, decision, label, code):
    with pytest.raises(RequestError) as refused:
        decided_label(proposal, decision, label)
    assert refused.value.code == code
