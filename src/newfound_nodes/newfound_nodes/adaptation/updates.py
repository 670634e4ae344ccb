# SPDX-License-Identifier: Apache-2.0
"""ONDA beside a stream of frames: predictions in the worker, all slow work in another thread."""

import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from newfound_core.onda import Onda, OndaStatus, PendingUpdate
from newfound_core.predictive import Prediction
from newfound_nodes.adaptation.state import LATEST, AdaptationStore, StateError

NICENESS = 5  # of the adaptation thread relative to the frames: where cores are few, they go first
REQUESTED, RESTORED = "requested", "restored"
ALARM, NOT_NEEDED, PREDICTED = "alarm", "not needed", "predicted"


@dataclass(frozen=True)
class AdaptationReport:
    """What happened since the node was configured."""

    frames: int = 0
    skipped: int = 0  # of these, not used: near-duplicates or not finite
    updates: int = 0
    updates_failed: int = 0
    failing: bool = False  # whether the last attempt at an update failed
    last_update: float | None = None  # time of the node's clock, s
    entropy: float = float("nan")  # mean over the images of the last update, nats
    reset_reason: str = ""  # "", or one of the names above
    last_reset: float | None = None


class Adaptation:
    """Predicts with an `Onda` whose updates are estimated and applied by a thread of its own.

    While an update is being estimated, frames go on with the statistics that are; those that
    come meanwhile are the next update's. `clock` gives the time for the report.
    """

    def __init__(
        self,
        onda: Onda,
        store: AdaptationStore,
        clock: Callable[[], float],
        on_error: Callable[[], None],
    ) -> None:
        self.onda, self._store = onda, store
        self._clock, self._on_error = clock, on_error
        self._lock = threading.Lock()
        self._report = AdaptationReport()
        self._entropies: list[float] = []
        self._skipped_before = self._unused()
        self._before = onda.status()  # of the last update
        self.prediction: Prediction | None = None  # that the statistics in use began with
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._estimating = False
        self._thread = threading.Thread(target=self._work, name="adaptation", daemon=True)
        self._thread.start()

    # The worker's side -----------------------------------------------------------------------

    def __call__(self, batch: Tensor) -> Any:
        """What the network returns for one frame, which is learned from."""
        return self.onda(batch)

    def count_frame(self, entropy: float) -> None:
        """Count the frame just predicted; begin an update if one is due and none is under way."""
        unused = self._unused()
        with self._lock:
            used = unused - self._skipped_before == self._report.skipped
            self._report = replace(
                self._report,
                frames=self._report.frames + 1,
                skipped=unused - self._skipped_before,
            )
            if used and not self.onda.status().frozen:
                self._entropies.append(entropy)
                del self._entropies[: -self.onda.config.frames_per_update]
            if self._estimating:
                return
            update = self.onda.pending_update()
            if update is None:
                return
            self._estimating = True
            entropies, self._entropies = self._entropies, []
        self._tasks.put(lambda: self._update(update, entropies))

    # The other side --------------------------------------------------------------------------

    def _update(self, update: PendingUpdate, entropies: list[float]) -> None:
        applied, failed = False, True
        try:
            applied = self.onda.apply(update.estimate())
            failed = False
        finally:
            status = self.onda.status()
            with self._lock:  # in one step: a caller that waited finds the update in the report
                self._estimating = False
                lost = self._report.updates_failed + failed
                self._report = replace(self._report, updates_failed=lost, failing=failed)
                if applied:
                    self._note_update(entropies, status)

    def _note_update(self, entropies: list[float], status: OndaStatus) -> None:
        self._report = replace(
            self._report,
            updates=self._report.updates + 1,
            last_update=self._clock(),
            entropy=sum(entropies) / len(entropies) if entropies else float("nan"),
        )
        if status.alarms != self._before.alarms:
            self._note_reset(ALARM)
            self.prediction = None
        elif status.resting and not self._before.resting:
            self._note_reset(NOT_NEEDED)
            self.prediction = None
        self._before = status

    def submit(self, task: Callable[[], None]) -> None:
        """Run something slow in the adaptation thread, after what waits there already."""
        self._tasks.put(task)

    def _work(self) -> None:
        _lower_priority()
        use_one_thread()
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception:
                self._on_error()

    # Any thread ------------------------------------------------------------------------------

    def report(self) -> AdaptationReport:
        """What happened so far."""
        with self._lock:
            return self._report

    @property
    def updating(self) -> bool:
        """Whether an update is under way."""
        return self._estimating

    def predict(
        self,
        prediction: Prediction,
        prior_frames: float | Sequence[float] | None,
        *,
        keep_frames: bool,
    ) -> None:
        """Go on from predicted statistics."""
        nearest = next(iter(prediction.shares))
        self.onda.start_from(
            prediction.statistics, nearest, prior_frames=prior_frames, keep_frames=keep_frames
        )
        with self._lock:
            self._entropies = []
            self.prediction = prediction
            self._before = self.onda.status()
            self._note_reset(PREDICTED)

    def reset(self) -> None:
        """Return to the statistics it began with, on request."""
        self.onda.reset()
        with self._lock:
            self._entropies = []
            self._note_reset(REQUESTED)

    def save(self, kind: str) -> Path:
        """Write the state; raises a StateError."""
        return self._store.save(self.onda, kind)

    def restore(self, kind: str) -> Path:
        """Go on from a saved state; raises a StateError."""
        path = self._store.restore(self.onda, kind)
        with self._lock:
            self._entropies = []
            self.prediction = None
            self._note_reset(RESTORED)
        return path

    def set_frozen(self, frozen: bool) -> None:
        """Hold the statistics, or let them follow again."""
        if frozen:
            self.onda.freeze()
        else:
            self.onda.unfreeze()

    def close(self, timeout: float) -> bool:
        """End the thread after what waits there; False if it does not in time."""
        self._tasks.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        self.onda.close()
        return True

    def _note_reset(self, reason: str) -> None:
        self._report = replace(self._report, reset_reason=reason, last_reset=self._clock())

    def _unused(self) -> int:
        status = self.onda.status()
        return status.redundant + status.rejected


def _lower_priority() -> None:
    """Lower the priority of this thread, which on Linux has one of its own."""
    if sys.platform == "linux":
        mine = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(19, mine + NICENESS))


def use_one_thread() -> None:
    """Let this thread compute alone: a thread pool of its own would slow that of the frames."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)  # of this thread, but also of all that have not computed yet
    restore = threading.Thread(target=torch.set_num_threads, args=(usual,))
    restore.start()
    restore.join()


class Persistence:
    """Keeps the file of the latest state as new as the adaptation it follows."""

    def __init__(self, store: AdaptationStore, logger: Any, *, shared: bool = False) -> None:
        """Raises a StateError if the state could not be written later.

        `shared`: other checkpoints keep their states in the same folder, as those of tasks do.
        """
        store.check_writable()
        self._store, self._logger, self._shared = store, logger, shared
        self._adaptation: Adaptation | None = None
        self._written: object = None

    def follow(self, adaptation: Adaptation) -> None:
        """Take it to where the last run ended, and write its states from now on."""
        self._resume(adaptation)
        self._adaptation, self._written = adaptation, _version(adaptation)

    def _resume(self, adaptation: Adaptation) -> None:
        """A state that does not fit is logged and left alone."""
        try:
            if self._store.has(LATEST):
                self._logger.info(f"goes on from {adaptation.restore(LATEST)}")
            elif not self._shared and (others := self._store.states_of_others()):
                raise StateError(
                    f"{self._store.folder} holds only states of other checkpoints, such as "
                    f"{others[0]}"
                )
        except StateError as error:
            self._logger.warning(f"saved adaptation ignored, begins at the source: {error}")

    def save_soon(self) -> None:
        """Let the adaptation's thread write the state, if by then there is something new."""
        if self._adaptation is not None:
            self._adaptation.submit(self._save)

    def _save(self) -> None:
        assert self._adaptation is not None
        version = _version(self._adaptation)
        if version == self._written:
            return
        try:
            self._adaptation.save(LATEST)
            self._written = version
        except StateError as error:
            self._logger.warning(f"adaptation not saved: {error}")


def _version(adaptation: Adaptation) -> object:
    report = adaptation.report()
    return report.updates, report.last_reset
