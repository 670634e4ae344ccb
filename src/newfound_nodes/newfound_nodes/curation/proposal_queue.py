# SPDX-License-Identifier: Apache-2.0
"""All proposals of a curator: on disk first, then in memory, and which step is due.

A change that cannot be written is not made; the step that led to it is tried again later. So a
process that starts after a crash continues from what is on disk:

    <folder>/<id of the unknown object>.json
    <folder>/<id of the unknown object>.jpg     its best crop, while the proposal is open
    <folder>/lock                               held by the curator
"""

import re
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from newfound_core.errors import DataError
from newfound_core.knowledge.labels import find_label
from newfound_core.storage import (
    FolderLock,
    read_format,
    remove_leftovers,
    write_bytes,
    write_json,
)
from newfound_nodes.curation import proposal as proposals
from newfound_nodes.curation.proposal import (
    Answer,
    Candidate,
    CurationRules,
    Evidence,
    Proposal,
    ProposalState,
    decided_label,
)
from newfound_runtime.services import RequestError

# States in which a service is called; one request of a kind at a time.
STEPS: tuple[ProposalState, ...] = (
    ProposalState.ASKING,
    ProposalState.FETCHING,
    ProposalState.SUBMITTING,
    ProposalState.LEARNING,
    ProposalState.DISMISSING,
)
FORMAT = 2
FINISHED_KEPT = 500  # finished proposals that are remembered
BACKLOG_KEPT = 1000  # objects that are not asked about yet
_ID = re.compile(r"[A-Za-z0-9_-]{1,60}")


@dataclass(frozen=True)
class RetryPolicy:
    """Delays between attempts, and limits."""

    delay: float = 1.0  # s after the first attempt; doubled after each
    max_delay: float = 60.0
    status_timeout: float = 30.0  # s without news of a learning job before the detector is asked


@dataclass(frozen=True)
class QuestionBudget:
    """How many questions a person is asked; what is beyond waits in the backlog."""

    per_minute: float = 0.0  # 0: any number
    max_open: int = 20  # that are not answered
    delay: float = 0.0  # s in the backlog before an object is asked about: it may be merged

    def allows(self, asked: Iterable[float], unanswered: int, now: float) -> bool:
        """Whether one more may be asked, after those `asked` at these times (s)."""
        if unanswered >= self.max_open:
            return False
        if not self.per_minute:
            return True
        window = 60 * max(1.0, 1 / self.per_minute)
        # A clock that was set back must not silence the curator: the future does not count.
        return sum(0 <= now - moment < window for moment in asked) < max(1.0, self.per_minute)


class ProposalQueue:
    """Keeps proposals and decides which step is due; may be used from any thread."""

    def __init__(
        self,
        folder: Path,
        rules: CurationRules,
        retry: RetryPolicy,
        on_change: Callable[[Proposal], None] = lambda proposal: None,
        *,
        clock: Callable[[], float] = time.monotonic,  # of waits
        budget: QuestionBudget | None = None,
        now: Callable[[], float] = time.time,  # s since 1970
    ) -> None:
        """`on_change` is called with every change that others should know of, in order.

        Raises a KnowledgeError or an OSError if the folder cannot be used.
        """
        self.folder, self.rules, self.retry = folder, rules, retry
        self.budget = budget or QuestionBudget()
        self._on_change, self._clock, self._now = on_change, clock, now
        self._lock = threading.RLock()
        self._store = ProposalStore(folder)
        try:
            found, self.warnings = self._store.load()
        except OSError:
            self._store.close()
            raise
        self._proposals = {proposal.id: proposal for proposal in found}
        self._crops = {p.id: self._store.crop(p.id) for p in found if p.open}
        self._known: frozenset[str] = frozenset()
        self._at_work: set[str] = set()
        self._waits: dict[str, float] = {}  # the last wait between two attempts
        self._not_before: dict[str, float] = {}
        self.storage_error = ""  # with the disk; empty when all is well
        self.ignored = 0  # unknown objects, because the backlog is full

    def close(self) -> None:
        """Let another process have the folder."""
        self._store.close()

    def all(self) -> list[Proposal]:
        """Every proposal, oldest first."""
        with self._lock:
            return list(self._proposals.values())

    def open(self) -> list[Proposal]:
        """Those that are under way: neither finished nor in the backlog."""
        return [p for p in self.all() if p.open and p.state != ProposalState.BACKLOG]

    def backlog(self) -> list[Proposal]:
        """Objects that are not asked about yet, the one to be asked about next first."""
        found = [p for p in self.all() if p.state == ProposalState.BACKLOG]
        return sorted(found, key=lambda p: (-p.evidence.priority, p.since, p.id))

    def crop(self, unknown_id: str) -> bytes:
        """The view of an open proposal that providers are asked about."""
        with self._lock:
            return self._crops.get(unknown_id, b"")

    # Events.

    def announced(self, unknown_id: str, crop: bytes, evidence: Evidence | None = None) -> None:
        """An unknown object waits for a name: ask when the budget allows, and only once."""
        evidence = evidence or Evidence()
        with self._lock:
            present = self._proposals.get(unknown_id)
            if present is not None:
                if present.state == ProposalState.DISMISSED:  # the detector has forgotten that
                    self._try_to_put(proposals.dismissed(present, present.decided_by))
                elif present.state == ProposalState.BACKLOG:
                    self._try_to_put(replace(present, evidence=evidence))
                return
            if not is_id(unknown_id) or not crop or not self._save_crop(unknown_id, crop):
                return
            self._try_to_put(self._first_state(unknown_id, evidence))
            self._limit_backlog()

    def unknown_merged(self, unknown_id: str, into: str) -> None:
        """The detector has found out that two objects are one: ask about that only."""
        with self._lock:
            present, survivor = self._proposals.get(unknown_id), self._proposals.get(into)
            if present is None or not present.open or not is_id(into) or into == unknown_id:
                return
            after = proposals.merged(present, survivor, into)
            crop = self._crops.get(unknown_id, b"")
            if after is not None:
                known = into in self._crops or self._save_crop(into, crop)
                if not known or not self._try_to_put(after):
                    return  # the question stays as it is
            self._try_to_put(
                replace(present, state=ProposalState.MERGED, message=f"the same object as {into}")
            )

    def unknown_changed(self, unknown_id: str, state: ProposalState, label: str) -> None:
        """The detector says that the object is learning, learned, dismissed or expired."""
        with self._lock:
            present = self._proposals.get(unknown_id)
            if present is None or not present.open:
                return
            ours = present.state in (ProposalState.SUBMITTING, ProposalState.LEARNING)
            if state in (ProposalState.LEARNING, ProposalState.EXPIRED) and ours:
                return
            by = present.decided_by or "detector"
            label = label or present.label
            self._try_to_put(
                replace(present, state=state, label=label, decided_by=by, attempts=0, message="")
            )

    def set_known(self, labels: Collection[str]) -> None:
        """The detector has published which classes it knows."""
        with self._lock:
            self._known = frozenset(labels)
            for present in self.open():
                if (
                    present.state == ProposalState.LEARNING
                    and not present.extend
                    and find_label(present.label, self._known) is not None
                ):
                    self._try_to_put(proposals.job_ended(present, True, ""))

    def known(self) -> frozenset[str]:
        """The labels of the classes that the detector knows."""
        with self._lock:
            return self._known

    def job_changed(self, job: str, label: str, learned: bool | None, why: str) -> Proposal | None:
        """News of a learning job; `learned` is None until it ends. Whose it is, if it is ours."""
        with self._lock:
            present = self._learning(job, label)
            if present is None:
                return None
            if learned is not None:
                self._try_to_put(proposals.job_ended(present, learned, why))
            else:
                self._not_before[present.id] = self._clock() + self.retry.status_timeout
            return self._proposals[present.id]

    def decide(self, unknown_id: str, decision: str, label: str, *, extend: bool = False) -> str:
        """A person confirms, corrects, dismisses or refuses a proposal; what will be learned.

        `extend`: if a class of that label is known, it gets these views. Raises RequestError.
        """
        with self._lock:
            present = self._proposals.get(unknown_id)
            if present is None:
                raise RequestError("UNKNOWN_ID", f"nothing is asked about {unknown_id[:60]!r}")
            if present.state not in proposals.UNDECIDED:
                what = f"as {present.label!r}, " if present.label else ""
                raise RequestError("ALREADY_DECIDED", f"it was decided {what}now {present.state}")
            if decision == "dismiss":
                after = proposals.dismissed(present)
            elif decision == "refuse":
                after = proposals.refused(present)
            else:
                label = decided_label(present, decision, label)
                after = proposals.decided(present, label, "person", self.rules)
                after = replace(after, extend=extend)
            try:
                self._put(after)
            except OSError as error:
                raise RequestError("STORAGE", f"the decision was not written: {error}") from error
            return after.label if decision in ("confirm", "correct") else ""

    # Steps.

    def due(self) -> list[Proposal]:
        """Proposals for which a service is to be asked now, at most one in each state.

        Each is left alone from then on, until `finished` says how that ended.
        """
        with self._lock:
            self._ask_next()
            now, found = self._clock(), []
            busy = {p.state for p in self.open() if p.id in self._at_work}
            for present in self.open():
                waiting = now < self._not_before.get(present.id, 0.0)
                if present.state not in STEPS or present.state in busy or waiting:
                    continue
                begun = self._begin(present)
                if begun is not None:
                    busy.add(begun.state)
                    self._at_work.add(begun.id)
                    found.append(begun)
            return found

    def finished(self, step: Proposal, answer: Answer) -> None:
        """How a step ended that `due` gave."""
        with self._lock:
            self._at_work.discard(step.id)
            present = self._proposals[step.id]
            if present.state != step.state or not present.open:
                return  # a decision was made meanwhile
            after = proposals.answered(present, answer, self.rules, self._known)
            written = self._try_to_put(after)
            if not written or after.state == present.state != ProposalState.LEARNING:
                self._wait(present.id)
            elif after.state == ProposalState.LEARNING:
                self._not_before[present.id] = self._clock() + self.retry.status_timeout

    def reset_steps(self) -> None:
        """No step will be finished any more: all are due again."""
        with self._lock:
            self._at_work.clear()

    # Inside.

    def _may_ask(self) -> bool:
        everything = self.all()
        unanswered = sum(p.state in proposals.QUESTIONS for p in everything)
        return self.budget.allows((p.asked for p in everything), unanswered, self._now())

    def _first_state(self, unknown_id: str, evidence: Evidence) -> Proposal:
        """Asked at once if there is no reason to wait."""
        if self.budget.delay or self.backlog() or not self._may_ask():
            return Proposal(unknown_id, ProposalState.BACKLOG, evidence=evidence)
        return Proposal(unknown_id, evidence=evidence, asked=self._now())

    def _ask_next(self) -> None:
        """Ask about the best of the backlog, as far as the budget allows."""
        now = self._now()
        for present in self.backlog():
            if not self._may_ask():
                return
            if abs(now - present.since) >= self.budget.delay:
                self._try_to_put(replace(present, state=ProposalState.ASKING, asked=now))

    def _limit_backlog(self) -> None:
        for last in self.backlog()[BACKLOG_KEPT:]:
            self.ignored += 1
            with suppress(OSError):
                self._store.remove(last.id)
            self._crops.pop(last.id, None)
            del self._proposals[last.id]

    def _save_crop(self, unknown_id: str, crop: bytes) -> bool:
        try:
            self._store.save_crop(unknown_id, crop)
        except OSError as error:
            self._storage_failed(error)
            return False
        self._crops[unknown_id] = crop
        return True

    def _begin(self, present: Proposal) -> Proposal | None:
        """Note what must be known after a crash before the detector is asked to learn."""
        if present.state == ProposalState.LEARNING and present.id not in self._not_before:
            self._not_before[present.id] = self._clock() + self.retry.status_timeout
            return None
        if present.state != ProposalState.SUBMITTING:
            return present
        known = find_label(present.label, self._known) is not None and not present.extend
        if known and not present.requests:
            why = f"a class {present.label!r} is known already: correct the label, or dismiss it"
            self._try_to_put(proposals.ask_again(present, why))
            return None
        noted = replace(present, requests=present.requests + 1)
        return noted if self._try_to_put(noted) else None

    def _learning(self, job: str, label: str) -> Proposal | None:
        learning = [p for p in self.open() if p.state == ProposalState.LEARNING]
        by_job = (p for p in learning if p.job == job)
        by_label = (p for p in learning if not p.job and p.label == label)
        return next(by_job, next(by_label, None))

    def _wait(self, unknown_id: str) -> None:
        wait = self._waits.get(unknown_id, self.retry.delay / 2) * 2
        self._waits[unknown_id] = min(wait, self.retry.max_delay)
        self._not_before[unknown_id] = self._clock() + self._waits[unknown_id]

    def _try_to_put(self, proposal: Proposal) -> bool:
        try:
            self._put(proposal)
        except OSError as error:
            self._storage_failed(error)
            return False
        return True

    def _storage_failed(self, error: OSError) -> None:
        self.storage_error = f"the state cannot be written: {error}"

    def _put(self, proposal: Proposal) -> None:
        """On disk first; raises OSError, and then nothing has changed."""
        before = self._proposals.get(proposal.id)
        if proposal == before:
            return
        moved = before is None or before.state != proposal.state
        if moved:
            proposal = replace(proposal, since=self._now())
        self._store.save(proposal)
        if moved:  # the next step need not wait for what the last one waited for
            self._waits.pop(proposal.id, None)
            self._not_before.pop(proposal.id, None)
        self.storage_error = ""
        self._proposals[proposal.id] = proposal
        if not proposal.open:
            self._crops.pop(proposal.id, None)
            self._remove_oldest()
        if before is None or replace(before, requests=proposal.requests) != proposal:
            self._on_change(proposal)

    def _remove_oldest(self) -> None:
        finished = sorted((p for p in self.all() if not p.open), key=lambda p: p.since)
        for old in finished[:-FINISHED_KEPT]:
            with suppress(OSError):
                self._store.remove(old.id)
            del self._proposals[old.id]


def is_id(text: str) -> bool:
    """Whether this can be the id of an unknown object, and the name of a file."""
    return _ID.fullmatch(text) is not None


class ProposalStore:
    """Files of proposals; a process killed while saving leaves the old one or the new."""

    def __init__(self, folder: Path) -> None:
        """Raises a KnowledgeError if the folder cannot be used or another process uses it."""
        self._lock = FolderLock(folder)
        self.folder = folder

    def close(self) -> None:
        """Let another process have the folder."""
        self._lock.close()

    def load(self) -> tuple[list[Proposal], list[str]]:
        """All proposals, oldest first, and a sentence about each that cannot be read."""
        remove_leftovers(self.folder)
        found, warnings = [], []
        for path in self.folder.glob("*.json"):
            try:
                found.append(_proposal(path))
            except (DataError, OSError, ValueError, KeyError, TypeError) as error:
                aside = path.with_suffix(".damaged")
                path.replace(aside)
                warnings.append(f"proposal {path.stem} is damaged, now {aside.name}: {error!r}")
        return sorted(found, key=lambda proposal: proposal.since), warnings

    def save(self, proposal: Proposal) -> None:
        """Write it; raises OSError if the disk refuses, and then the old one is still there."""
        write_json(self._path(proposal.id, "json"), {"format": FORMAT, **asdict(proposal)})
        if not proposal.open:
            self._path(proposal.id, "jpg").unlink(missing_ok=True)

    def save_crop(self, unknown_id: str, image: bytes) -> None:
        """Keep the view that providers are asked about; raises OSError."""
        write_bytes(self._path(unknown_id, "jpg"), image)

    def crop(self, unknown_id: str) -> bytes:
        """That view; empty if there is none."""
        try:
            return self._path(unknown_id, "jpg").read_bytes()
        except OSError:
            return b""

    def remove(self, unknown_id: str) -> None:
        """Forget that it was ever asked about."""
        for kind in ("json", "jpg"):
            self._path(unknown_id, kind).unlink(missing_ok=True)

    def _path(self, unknown_id: str, kind: str) -> Path:
        assert is_id(unknown_id), f"{unknown_id!r} is no id"
        return self.folder / f"{unknown_id}.{kind}"


def _proposal(path: Path) -> Proposal:
    values = read_format(path, FORMAT)
    if values["id"] != path.stem:
        raise ValueError("it is of another object")
    values["state"] = ProposalState(values["state"])
    values["evidence"] = Evidence(**values.get("evidence", {}))  # earlier files have none
    candidates = tuple(Candidate(**candidate) for candidate in values["candidates"])
    lists = {name: tuple(values.get(name, ())) for name in ("files", "refused")}
    return Proposal(**values | lists | {"candidates": candidates})
