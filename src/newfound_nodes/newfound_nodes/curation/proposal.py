# SPDX-License-Identifier: Apache-2.0
"""What is done about one unknown object, as a value, and every way in which it goes on.

    asking ─► waiting ─► fetching ─► submitting ─► learning ─► learned
      │          │  ▲                    │             │
      │          │  └── refused, failed ─┴─────────────┘
      └──────────┴─► dismissing ─► dismissed

A step ends with an `Answer`. Nothing here knows of ROS, of time limits or of the disk.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from newfound_core.knowledge.labels import problem_with_label

Phase = Literal[
    "asking", "waiting", "fetching", "submitting", "learning", "dismissing",
    "learned", "dismissed", "expired",
]  # fmt: skip
FINAL = ("learned", "dismissed", "expired")
UNDECIDED = ("asking", "waiting")

# done: it worked. refused: it never will. failed: it may work if tried again.
# away: nobody was there to do it. busy: somebody was, but not now. Neither is a failure.
# exists: there is a class of that label, or it is being learned. gone: there is no such object.
Outcome = Literal["done", "refused", "failed", "away", "busy", "exists", "gone"]


@dataclass(frozen=True)
class Candidate:
    """A label that a provider has proposed."""

    label: str
    confidence: float
    provider: str


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
class Proposal:
    """An unknown object on its way to a name."""

    id: str  # of the unknown object
    phase: Phase = "asking"
    since: float = 0.0  # s since 1970, when it came into this phase
    candidates: tuple[Candidate, ...] = ()  # best first
    label: str = ""  # decided
    decided_by: str = ""  # person, auto_confirm, or detector
    collection: str = ""  # folder of the fetched images
    files: tuple[str, ...] = ()
    requests: int = 0  # to learn it, since one was last answered
    job: str = ""
    attempts: int = 0  # at this step, that failed
    message: str = ""

    @property
    def open(self) -> bool:
        """Whether something is still to be done."""
        return self.phase not in FINAL


@dataclass(frozen=True)
class Rules:
    """What goes on without a person, and how long."""

    attempts: int = 3  # at asking, fetching and learning, before going on without
    auto_confirm: float = 1.0  # confidence above which the first candidate is taken
    fetch: bool = True  # images are wanted besides the crops


def answered(proposal: Proposal, answer: Answer, rules: Rules, known: Collection[str]) -> Proposal:
    """What becomes of it when its present step has ended so."""
    if answer.outcome == "gone" and proposal.phase in ("submitting", "learning"):
        return replace(proposal, phase="expired", message=answer.message)
    goes_on = {
        "asking": _asked,
        "fetching": _fetched,
        "submitting": _submitted,
        "learning": _looked_after,
        "dismissing": _dismissed,
    }[proposal.phase]
    return goes_on(proposal, answer, rules, known)


def decided(proposal: Proposal, label: str, by: str, rules: Rules) -> Proposal:
    """Somebody has said what it is."""
    phase: Phase = "fetching" if rules.fetch else "submitting"
    return _fresh(proposal, phase, label=label, decided_by=by)


def dismissed(proposal: Proposal, by: str = "person") -> Proposal:
    """Somebody has said that it is not worth learning."""
    return _fresh(proposal, "dismissing", decided_by=by)


def came_back(proposal: Proposal, why: str) -> Proposal:
    """A decision came to nothing: a person is asked again, with the reason."""
    return _fresh(proposal, "waiting", message=why, label="", decided_by="")


def job_ended(proposal: Proposal, learned: bool, why: str) -> Proposal:
    """The detector has told how learning ended."""
    if learned:
        return replace(proposal, phase="learned", message="")
    return came_back(proposal, f"{proposal.label!r} was not learned: {why}")


# The steps.


def _asked(proposal: Proposal, answer: Answer, rules: Rules, known: Collection[str]) -> Proposal:
    again = _another_attempt(proposal, answer, rules)
    if again is not None:
        return again
    waiting = _fresh(
        proposal, "waiting", message=answer.message, candidates=tuple(answer.candidates)
    )
    if not waiting.candidates:
        reason = f": {answer.message}" if answer.message else ""
        return replace(waiting, message=f"no label was found, a person has to say it{reason}")
    best = waiting.candidates[0]
    if best.label in known:
        message = f"it looks like {best.label!r}, which is known: correct the label, or dismiss it"
        return replace(waiting, message=message)
    if best.confidence > rules.auto_confirm and not problem_with_label(best.label):
        return decided(waiting, best.label, "auto_confirm", rules)
    return waiting


def _fetched(proposal: Proposal, answer: Answer, rules: Rules, known: Collection[str]) -> Proposal:
    # A service that is away is not waited for: the crops are enough to learn from.
    absent = answer.outcome in ("away", "busy")
    counted = replace(answer, outcome="failed") if absent else answer
    again = _another_attempt(proposal, counted, rules)
    if again is not None:
        return again
    message = answer.message if answer.files else f"learned from crops alone: {answer.message}"
    return _fresh(
        proposal,
        "submitting",
        message=message,
        collection=answer.collection,
        files=tuple(answer.files),
    )


def _submitted(
    proposal: Proposal, answer: Answer, rules: Rules, known: Collection[str]
) -> Proposal:
    if answer.outcome == "exists" and proposal.requests > 1:
        # An earlier request was heard, though its answer was not.
        return _fresh(proposal, "learning")
    if answer.outcome == "busy":
        return replace(proposal, requests=0, message=answer.message)
    again = _another_attempt(proposal, answer, rules)
    if again is not None:
        return again
    if answer.outcome == "done":
        return _fresh(proposal, "learning", job=answer.job)
    return came_back(proposal, f"{proposal.label!r} cannot be learned: {answer.message}")


def _looked_after(
    proposal: Proposal, answer: Answer, rules: Rules, known: Collection[str]
) -> Proposal:
    """Nothing was heard of the job for long, and the detector was asked to learn it again."""
    if answer.outcome == "exists":
        return job_ended(proposal, True, "") if proposal.label in known else proposal
    if answer.outcome == "done":  # the first job had ended unheard, without success
        if proposal.attempts + 1 >= rules.attempts:
            return came_back(proposal, f"{proposal.label!r} was tried {rules.attempts} times")
        return replace(proposal, job=answer.job, attempts=proposal.attempts + 1)
    if answer.outcome == "refused":
        return came_back(proposal, f"{proposal.label!r} cannot be learned: {answer.message}")
    return replace(proposal, message=answer.message)


def _dismissed(
    proposal: Proposal, answer: Answer, rules: Rules, known: Collection[str]
) -> Proposal:
    again = _another_attempt(proposal, answer, rules)
    return again or _fresh(proposal, "dismissed", message="")


def _another_attempt(proposal: Proposal, answer: Answer, rules: Rules) -> Proposal | None:
    """The same step once more, if that makes sense."""
    if answer.outcome in ("away", "busy"):
        return replace(proposal, message=answer.message)
    if answer.outcome == "failed" and proposal.attempts + 1 < rules.attempts:
        return replace(proposal, attempts=proposal.attempts + 1, message=answer.message)
    return None


def _fresh(proposal: Proposal, phase: Phase, message: str = "", **changes: object) -> Proposal:
    """In another phase, where nothing was tried yet."""
    values = {"phase": phase, "attempts": 0, "requests": 0, "message": message, "job": ""}
    return replace(proposal, **{**values, **changes})  # type: ignore[arg-type]
