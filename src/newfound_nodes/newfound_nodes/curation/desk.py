# SPDX-License-Identifier: Apache-2.0
"""All proposals of a curator: what happens to them, on disk first, and which step is due.

A change that cannot be written is not made; the step that led to it is tried again later. So
whoever starts after a crash goes on where the disk says that things are.
"""

import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from newfound_nodes.curation import proposal as proposals
from newfound_nodes.curation.decision import RefusedError, label_of
from newfound_nodes.curation.proposal import Answer, Phase, Proposal, Rules
from newfound_nodes.curation.proposal_store import FINISHED_KEPT, ProposalStore, is_id

# Phases in which a service has to be asked; one request of a kind at a time.
STEPS: tuple[Phase, ...] = ("asking", "fetching", "submitting", "learning", "dismissing")


@dataclass(frozen=True)
class Patience:
    """Waits between attempts, and limits."""

    first_wait: float = 1.0  # s after the first attempt; doubled after each
    longest_wait: float = 60.0
    silence: float = 30.0  # s without news of a learning job before the detector is asked
    max_open: int = 100  # proposals; further unknown objects have to wait


class Desk:
    """Keeps proposals and their order; may be used from any thread."""

    def __init__(
        self,
        folder: Path,
        rules: Rules,
        patience: Patience,
        changed: Callable[[Proposal], None] = lambda proposal: None,
        clock: Callable[[], float] = time.monotonic,  # of waits
    ) -> None:
        """`changed` is told of everything that matters to others, in order.

        Raises a KnowledgeError or an OSError if the folder cannot be used.
        """
        self.folder, self.rules, self.patience = folder, rules, patience
        self._changed, self._clock = changed, clock
        self._lock = threading.RLock()
        self._store = ProposalStore(folder)
        try:
            found, self.complaints = self._store.load()
        except OSError:
            self._store.close()
            raise
        self._proposals = {proposal.id: proposal for proposal in found}
        self._crops = {p.id: self._store.crop(p.id) for p in found if p.open}
        self._known: frozenset[str] = frozenset()
        self._at_work: set[str] = set()
        self._waits: dict[str, float] = {}  # the last wait between two attempts
        self._not_before: dict[str, float] = {}
        self.trouble = ""  # with the disk; empty when all is well
        self.turned_away = 0  # unknown objects, because too many proposals are open

    def close(self) -> None:
        """Let another process have the folder."""
        self._store.close()

    def all(self) -> list[Proposal]:
        """Every proposal, oldest first."""
        with self._lock:
            return list(self._proposals.values())

    def open(self) -> list[Proposal]:
        """Those that are not finished."""
        return [proposal for proposal in self.all() if proposal.open]

    def crop(self, unknown_id: str) -> bytes:
        """The view of an open proposal that providers are asked about."""
        with self._lock:
            return self._crops.get(unknown_id, b"")

    # What others say.

    def announced(self, unknown_id: str, crop: bytes) -> None:
        """An unknown object waits for a name: ask, unless that was done before."""
        with self._lock:
            present = self._proposals.get(unknown_id)
            if present is not None:
                if present.phase == "dismissed":  # the detector has forgotten that
                    self._try_to_put(proposals.dismissed(present, present.decided_by))
                return
            if not is_id(unknown_id) or not crop:
                return
            if len(self.open()) >= self.patience.max_open:
                self.turned_away += 1
                return
            try:
                self._store.save_crop(unknown_id, crop)
            except OSError as error:
                self._note(error)
                return
            self._crops[unknown_id] = crop
            self._try_to_put(Proposal(unknown_id))

    def named_elsewhere(self, unknown_id: str, phase: Phase, label: str) -> None:
        """The detector says that the object is learning, learned, dismissed or expired."""
        with self._lock:
            present = self._proposals.get(unknown_id)
            if present is None or not present.open:
                return
            ours = present.phase in ("submitting", "learning")
            if phase in ("learning", "expired") and ours:
                return
            by = present.decided_by or "detector"
            label = label or present.label
            self._try_to_put(
                replace(present, phase=phase, label=label, decided_by=by, attempts=0, message="")
            )

    def knows(self, labels: Collection[str]) -> None:
        """The detector says which classes it knows."""
        with self._lock:
            self._known = frozenset(labels)
            for present in self.open():
                if present.phase == "learning" and present.label in self._known:
                    self._try_to_put(proposals.job_ended(present, True, ""))

    def job_told(self, job: str, label: str, learned: bool | None, why: str) -> Proposal | None:
        """News of a learning job; `learned` is None until it ends. Whose it is, if it is ours."""
        with self._lock:
            present = self._learning(job, label)
            if present is None:
                return None
            if learned is not None:
                self._try_to_put(proposals.job_ended(present, learned, why))
            else:
                self._not_before[present.id] = self._clock() + self.patience.silence
            return self._proposals[present.id]

    def decide(self, unknown_id: str, decision: str, label: str) -> str:
        """A person confirms, corrects or dismisses; what will be learned. Raises RefusedError."""
        with self._lock:
            present = self._proposals.get(unknown_id)
            if present is None:
                raise RefusedError("UNKNOWN_ID", f"nothing is asked about {unknown_id[:60]!r}")
            if present.phase not in proposals.UNDECIDED:
                what = f"as {present.label!r}, " if present.label else ""
                raise RefusedError("ALREADY_DECIDED", f"it was decided {what}now {present.phase}")
            if decision == "dismiss":
                after = proposals.dismissed(present)
            else:
                label = label_of(present, decision, label)
                after = proposals.decided(present, label, "person", self.rules)
            try:
                self._put(after)
            except OSError as error:
                raise RefusedError("STORAGE", f"the decision was not written: {error}") from error
            return after.label if decision != "dismiss" else ""

    # Steps.

    def due(self) -> list[Proposal]:
        """Proposals for which a service is to be asked now, at most one in each phase.

        Each is left alone from then on, until `finished` says how that ended.
        """
        with self._lock:
            now, found = self._clock(), []
            busy = {p.phase for p in self.open() if p.id in self._at_work}
            for present in self.open():
                waiting = now < self._not_before.get(present.id, 0.0)
                if present.phase not in STEPS or present.phase in busy or waiting:
                    continue
                begun = self._begin(present)
                if begun is not None:
                    busy.add(begun.phase)
                    self._at_work.add(begun.id)
                    found.append(begun)
            return found

    def finished(self, step: Proposal, answer: Answer) -> None:
        """How a step ended that `due` gave."""
        with self._lock:
            self._at_work.discard(step.id)
            present = self._proposals[step.id]
            if present.phase != step.phase or not present.open:
                return  # somebody has decided meanwhile
            after = proposals.answered(present, answer, self.rules, self._known)
            written = self._try_to_put(after)
            if not written or after.phase == present.phase != "learning":
                self._wait(present.id)
            elif after.phase == "learning":
                self._not_before[present.id] = self._clock() + self.patience.silence

    def interrupted(self) -> None:
        """No step will be finished any more: all are due again."""
        with self._lock:
            self._at_work.clear()

    # Inside.

    def _begin(self, present: Proposal) -> Proposal | None:
        """Note what must be known after a crash before the detector is asked to learn."""
        if present.phase == "learning" and present.id not in self._not_before:
            self._not_before[present.id] = self._clock() + self.patience.silence
            return None
        if present.phase != "submitting":
            return present
        if present.label in self._known and not present.requests:
            why = f"a class {present.label!r} is known already: correct the label, or dismiss it"
            self._try_to_put(proposals.came_back(present, why))
            return None
        noted = replace(present, requests=present.requests + 1)
        return noted if self._try_to_put(noted) else None

    def _learning(self, job: str, label: str) -> Proposal | None:
        learning = [p for p in self.open() if p.phase == "learning"]
        by_job = (p for p in learning if p.job == job)
        by_label = (p for p in learning if not p.job and p.label == label)
        return next(by_job, next(by_label, None))

    def _wait(self, unknown_id: str) -> None:
        wait = self._waits.get(unknown_id, self.patience.first_wait / 2) * 2
        self._waits[unknown_id] = min(wait, self.patience.longest_wait)
        self._not_before[unknown_id] = self._clock() + self._waits[unknown_id]

    def _try_to_put(self, proposal: Proposal) -> bool:
        try:
            self._put(proposal)
        except OSError as error:
            self._note(error)
            return False
        return True

    def _note(self, error: OSError) -> None:
        self.trouble = f"the state cannot be written: {error}"

    def _put(self, proposal: Proposal) -> None:
        """On disk first; raises OSError, and then nothing has changed."""
        before = self._proposals.get(proposal.id)
        if proposal == before:
            return
        moved = before is None or before.phase != proposal.phase
        if moved:
            proposal = replace(proposal, since=time.time())
        self._store.save(proposal)
        if moved:  # the next step need not wait for what the last one waited for
            self._waits.pop(proposal.id, None)
            self._not_before.pop(proposal.id, None)
        self.trouble = ""
        self._proposals[proposal.id] = proposal
        if not proposal.open:
            self._crops.pop(proposal.id, None)
            self._forget_the_oldest()
        if before is None or replace(before, requests=proposal.requests) != proposal:
            self._changed(proposal)

    def _forget_the_oldest(self) -> None:
        finished = sorted((p for p in self.all() if not p.open), key=lambda p: p.since)
        for old in finished[:-FINISHED_KEPT]:
            with suppress(OSError):
                self._store.remove(old.id)
            del self._proposals[old.id]
