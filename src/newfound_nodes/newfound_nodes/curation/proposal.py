# SPDX-License-Identifier: Apache-2.0
"""A proposal: one unknown object on its way to a label, as a value, and its state machine.

    backlog ─► asking ─► waiting ─► fetching ─► submitting ─► learning ─► learned
       │         │          │  ▲                    │             │
       │         │          │  └── refused, failed ─┴─────────────┘
       └─────────┴──────────┴─► dismissing ─► dismissed

A step ends with an `Answer`. Nothing here knows of ROS, of timeouts or of the disk.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from newfound_core.knowledge.labels import find_label, label_problem, normalise_label
from newfound_runtime.services import RequestError


class ProposalState(StrEnum):
    """Where a proposal is; the names are those of LabelProposal.STATE_* in lower case."""

    BACKLOG = "backlog"  # not asked yet
    ASKING = "asking"  # providers are asked for labels
    WAITING = "waiting"  # for a person to confirm, correct or dismiss
    FETCHING = "fetching"  # the label is decided; images of it are fetched
    SUBMITTING = "submitting"  # the detector is asked to learn it
    LEARNING = "learning"  # the detector learns it, or has it in its queue
    DISMISSING = "dismissing"  # the detector is told that it is not worth learning
    LEARNED = "learned"
    DISMISSED = "dismissed"
    EXPIRED = "expired"  # the detector has removed the object
    MERGED = "merged"  # the same object as another one, which goes on in its place

    @property
    def final(self) -> bool:
        """Whether nothing is to be done any more."""
        return self in _FINAL


_FINAL = (
    ProposalState.LEARNED,
    ProposalState.DISMISSED,
    ProposalState.EXPIRED,
    ProposalState.MERGED,
)
QUESTIONS = (ProposalState.ASKING, ProposalState.WAITING)  # a person should look at them
UNDECIDED = (ProposalState.BACKLOG, *QUESTIONS)
_MOST_REFUSED = 100  # labels of one object
_PROGRESS = (*UNDECIDED, ProposalState.FETCHING, ProposalState.SUBMITTING)  # in this order

# done: it worked. refused: it never will. failed: it may work if tried again.
# away: the service is not there. busy: it is, but not now. Neither is a failure.
# exists: there is a class of that label, or it is being learned. gone: there is no such object.
Outcome = Literal["done", "refused", "failed", "away", "busy", "exists", "gone"]


@dataclass(frozen=True)
class Candidate:
    """A label that a provider has proposed."""

    label: str
    confidence: float
    provider: str
    span_share: float = 0.0


@dataclass(frozen=True)
class Answer:
    """How a step ended, and what it brought."""

    outcome: Outcome
    message: str = ""
    candidates: Sequence[Candidate] = ()  # of asking
    collection: str = ""  # of fetching: a folder and the files in it
    files: Sequence[str] = ()
    job: str = ""  # of submitting


@dataclass(frozen=True)
class Evidence:
    """What the detector has said of an object; decides what is asked first."""

    sightings: int = 1
    size: float = 0.0  # pixels: square root of the area of its box
    stability: float = 1.0  # 0 to 1

    @property
    def priority(self) -> float:
        """How much the object is worth a question, 0 to 1.

        The mean of how often it was seen, n / (n + 20), how large it is, s / (s + 100), and how
        stable: the most frequent, largest and steadiest objects come first, and none of the three
        can outweigh both others.
        """
        often = self.sightings / (self.sightings + 20)
        return (often + self.size / (self.size + 100) + self.stability) / 3


@dataclass(frozen=True)
class Proposal:
    """An unknown object on its way to a name."""

    id: str  # of the unknown object
    state: ProposalState = ProposalState.ASKING
    since: float = 0.0  # s since 1970, when it came into this state
    candidates: tuple[Candidate, ...] = ()  # best first
    label: str = ""  # decided
    decided_by: str = ""  # person, auto_confirm, or detector
    collection: str = ""  # folder of the fetched images
    files: tuple[str, ...] = ()
    requests: int = 0  # to learn it, since one was last answered
    job: str = ""
    attempts: int = 0  # at this step, that failed
    message: str = ""
    evidence: Evidence = Evidence()
    asked: float = 0.0  # s since 1970, when it left the backlog; 0: it has not
    extend: bool = False  # a known class may be given its views
    refused: tuple[str, ...] = ()  # labels that a person has said it is not

    @property
    def open(self) -> bool:
        """Whether something is still to be done."""
        return not self.state.final


@dataclass(frozen=True)
class CurationRules:
    """What goes on without a person, and how long."""

    attempts: int = 3  # at asking, fetching and learning, before going on without
    auto_confirm: float = 1.0  # confidence above which the first candidate is taken
    fetch: bool = True  # images are wanted besides the crops


def answered(
    proposal: Proposal, answer: Answer, rules: CurationRules, known: Collection[str]
) -> Proposal:
    """The proposal after its present step has ended with this answer."""
    if answer.outcome == "gone" and proposal.state in (
        ProposalState.SUBMITTING,
        ProposalState.LEARNING,
    ):
        return replace(proposal, state=ProposalState.EXPIRED, message=answer.message)
    transition = {
        ProposalState.ASKING: _asked,
        ProposalState.FETCHING: _fetched,
        ProposalState.SUBMITTING: _submitted,
        ProposalState.LEARNING: _checked,
        ProposalState.DISMISSING: _dismissed,
    }[proposal.state]
    return transition(proposal, answer, rules, known)


def decided(proposal: Proposal, label: str, by: str, rules: CurationRules) -> Proposal:
    """A label was decided."""
    state: ProposalState = ProposalState.FETCHING if rules.fetch else ProposalState.SUBMITTING
    return _fresh(proposal, state, label=label, decided_by=by)


def dismissed(proposal: Proposal, by: str = "person") -> Proposal:
    """It was decided that it is not worth learning."""
    return _fresh(proposal, ProposalState.DISMISSING, decided_by=by)


def refused(proposal: Proposal) -> Proposal:
    """It is none of the candidates: others are asked for; raises RequestError."""
    if not proposal.candidates:
        raise RequestError("INVALID_DECISION", "no label is proposed that could be refused")
    names = (*proposal.refused, *(candidate.label for candidate in proposal.candidates))
    return _fresh(proposal, ProposalState.ASKING, candidates=(), refused=names[-_MOST_REFUSED:])


def ask_again(proposal: Proposal, why: str) -> Proposal:
    """A decision came to nothing: a person is asked again, with the reason."""
    return _fresh(proposal, ProposalState.WAITING, message=why, label="", decided_by="")


def job_ended(proposal: Proposal, learned: bool, why: str) -> Proposal:
    """The detector reports how learning ended."""
    if learned:
        return replace(proposal, state=ProposalState.LEARNED, message="")
    return ask_again(proposal, f"{proposal.label!r} was not learned: {why}")


def merged(other: Proposal, survivor: Proposal | None, into: str) -> Proposal | None:
    """What the survivor of two objects that are one becomes; None if that is what it is.

    It takes over the other's place if that is further on: a question is not asked twice, and a
    decision is not lost.
    """
    if survivor is None or survivor.state in UNDECIDED:
        if other.state is ProposalState.DISMISSING:
            return dismissed(survivor or replace(other, id=into), other.decided_by)
        if other.state not in _PROGRESS:
            return None
        before = -1 if survivor is None else _PROGRESS.index(survivor.state)
        if _PROGRESS.index(other.state) > before:
            return replace(other, id=into, attempts=0, requests=0, job="", message="")
    return None


def decided_label(present: Proposal, decision: str, label: str) -> str:
    """The label that a person decides on; raises RequestError."""
    if decision == "confirm":
        if not present.candidates:
            reason = "no label is proposed: give one with DECISION_CORRECT"
            raise RequestError("INVALID_LABEL", reason)
        proposed = present.candidates[0].label
        if label not in ("", proposed):
            reason = f"{proposed!r} is proposed: give another label with DECISION_CORRECT"
            raise RequestError("INVALID_DECISION", reason)
        label = proposed
    label = normalise_label(label)
    problem = label_problem(label)
    if problem:
        raise RequestError("INVALID_LABEL", problem)
    return label


# The steps.


def _asked(
    proposal: Proposal, answer: Answer, rules: CurationRules, known: Collection[str]
) -> Proposal:
    again = _another_attempt(proposal, answer, rules)
    if again is not None:
        return again
    waiting = _fresh(
        proposal,
        ProposalState.WAITING,
        message=answer.message,
        candidates=tuple(answer.candidates),
    )
    if not waiting.candidates:
        reason = f": {answer.message}" if answer.message else ""
        return replace(waiting, message=f"no label was found, a person has to say it{reason}")
    best = waiting.candidates[0]
    if find_label(best.label, known) is not None:
        message = f"it looks like {best.label!r}, which is known: correct the label, or dismiss it"
        return replace(waiting, message=message)
    if best.confidence > rules.auto_confirm and not label_problem(best.label):
        return decided(waiting, best.label, "auto_confirm", rules)
    return waiting


def _fetched(
    proposal: Proposal, answer: Answer, rules: CurationRules, known: Collection[str]
) -> Proposal:
    # A service that is away is not waited for: the crops are enough to learn from.
    absent = answer.outcome in ("away", "busy")
    counted = replace(answer, outcome="failed") if absent else answer
    again = _another_attempt(proposal, counted, rules)
    if again is not None:
        return again
    message = answer.message if answer.files else f"learned from crops alone: {answer.message}"
    return _fresh(
        proposal,
        ProposalState.SUBMITTING,
        message=message,
        collection=answer.collection,
        files=tuple(answer.files),
    )


def _submitted(
    proposal: Proposal, answer: Answer, rules: CurationRules, known: Collection[str]
) -> Proposal:
    if answer.outcome == "exists" and proposal.requests > 1:
        # An earlier request was heard, though its answer was not.
        return _fresh(proposal, ProposalState.LEARNING)
    if answer.outcome == "busy":
        return replace(proposal, requests=0, message=answer.message)
    again = _another_attempt(proposal, answer, rules)
    if again is not None:
        return again
    if answer.outcome == "done":
        return _fresh(proposal, ProposalState.LEARNING, job=answer.job)
    return ask_again(proposal, f"{proposal.label!r} cannot be learned: {answer.message}")


def _checked(
    proposal: Proposal, answer: Answer, rules: CurationRules, known: Collection[str]
) -> Proposal:
    """Nothing was heard of the job for long, and the detector was asked to learn it again."""
    if answer.outcome == "exists" and proposal.extend:
        return proposal  # it was known before: only the end of the job says that it is learned
    if answer.outcome == "exists":
        return (
            job_ended(proposal, True, "")
            if find_label(proposal.label, known) is not None
            else proposal
        )
    if answer.outcome == "done":  # the first job had ended unheard, without success
        if proposal.attempts + 1 >= rules.attempts:
            return ask_again(proposal, f"{proposal.label!r} was tried {rules.attempts} times")
        return replace(proposal, job=answer.job, attempts=proposal.attempts + 1)
    if answer.outcome == "refused":
        return ask_again(proposal, f"{proposal.label!r} cannot be learned: {answer.message}")
    return replace(proposal, message=answer.message)


def _dismissed(
    proposal: Proposal, answer: Answer, rules: CurationRules, known: Collection[str]
) -> Proposal:
    again = _another_attempt(proposal, answer, rules)
    return again or _fresh(proposal, ProposalState.DISMISSED, message="")


def _another_attempt(proposal: Proposal, answer: Answer, rules: CurationRules) -> Proposal | None:
    """The same step once more, if that makes sense."""
    if answer.outcome in ("away", "busy"):
        return replace(proposal, message=answer.message)
    if answer.outcome == "failed" and proposal.attempts + 1 < rules.attempts:
        return replace(proposal, attempts=proposal.attempts + 1, message=answer.message)
    return None


def _fresh(
    proposal: Proposal, state: ProposalState, message: str = "", **changes: object
) -> Proposal:
    """In another state, where nothing was tried yet."""
    values = {"state": state, "attempts": 0, "requests": 0, "message": message, "job": ""}
    return replace(proposal, **{**values, **changes})  # type: ignore[arg-type]
