# SPDX-License-Identifier: Apache-2.0
"""How far a learning job is, and how long it may still take."""

import time
from pathlib import Path

from newfound_core.open_world.job import JobProgress, append_progress, is_cancelled
from newfound_core.open_world.step_config import LearningCancelledError

# Shares of the whole job by stage, as measured with thirty new images and a memory of 400, and
# eight epochs. A job that does not train is the other stages alone.
STAGES = {
    "loading": 0.05,
    "features": 0.45,
    "training": 0.35,
    "means": 0.05,
    "thresholds": 0.02,
    "checking": 0.05,
    "saving": 0.03,
}
_INTERVAL = 0.25  # seconds between two lines, at least, within a stage


class JobReporter:
    """Writes progress, and stops the job when somebody asks for it."""

    def __init__(self, directory: Path, *, trains: bool) -> None:
        self._directory = directory
        kept = {name: share for name, share in STAGES.items() if trains or name != "training"}
        self._shares = {name: share / sum(kept.values()) for name, share in kept.items()}
        self._started = time.monotonic()
        self._first: float | None = None  # fraction at which this process began to work
        self._stage, self._last = "", 0.0

    def report(self, stage: str, done: int = 0, total: int = 1) -> None:
        """Says how much of a stage is done."""
        if is_cancelled(self._directory):
            raise LearningCancelledError(f"stopped in {stage}: the job was cancelled")
        now = time.monotonic()
        if stage == self._stage and done < total and now - self._last < _INTERVAL:
            return
        self._stage, self._last = stage, now
        fraction = min(1.0, self._before(stage) + self._shares[stage] * done / max(total, 1))
        append_progress(
            self._directory, JobProgress(stage, round(fraction, 4), self._seconds_left(fraction))
        )

    def _before(self, stage: str) -> float:
        names = list(self._shares)
        return sum(self._shares[name] for name in names[: names.index(stage)])

    def _seconds_left(self, fraction: float) -> float | None:
        """From the pace of this process alone: what was done before a resume says nothing."""
        if self._first is None:
            self._first = fraction
        gained = fraction - self._first
        if gained < 0.02:
            return None
        elapsed = time.monotonic() - self._started
        return round(elapsed / gained * (1 - fraction), 1)
