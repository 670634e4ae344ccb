# SPDX-License-Identifier: Apache-2.0
"""Where a learning job is, as a value."""

from dataclasses import dataclass
from typing import Literal

from newfound_core.errors import NewfoundError, StorageError
from newfound_core.open_world.job import JobProgress, JobResult

Stage = Literal[
    "queued", "preparing", "training", "calibrating", "validating", "switching",
    "done", "failed", "cancelled", "rejected",
]  # fmt: skip
FINAL = ("done", "failed", "cancelled", "rejected")

# The stages of the learning process, as everybody else sees them.
_STAGES: dict[str, Stage] = {
    "loading": "preparing",
    "features": "preparing",
    "training": "training",
    "means": "calibrating",  # a job that does not train has them as well
    "thresholds": "calibrating",
    "checking": "validating",
    "saving": "validating",
}


@dataclass(frozen=True)
class JobStatus:
    """Where a job is; what came out, once it is final."""

    job: str
    label: str
    stage: Stage
    progress: float = 0.0  # of the whole job, 0 to 1
    seconds_left: float | None = None
    version: int = 0  # of the knowledge that it made; 0 until it is done
    message: str = ""
    accuracy_before: float | None = None  # of the old classes on the held-out memory
    accuracy_after: float | None = None
    storage: bool = False  # it failed because the disk is full, or does not take what is written

    @property
    def final(self) -> bool:
        """Whether nothing will change any more."""
        return self.stage in FINAL


def following(job: str, label: str, progress: JobProgress | None) -> JobStatus:
    """The status of a job whose process is at work."""
    if progress is None:
        return JobStatus(job, label, "preparing")
    stage = _STAGES.get(progress.stage, "training")
    return JobStatus(job, label, stage, min(progress.fraction, 0.99), progress.seconds_left)


def ended(job: str, label: str, result: JobResult) -> JobStatus:
    """The status of a job that brought no new knowledge."""
    stage: Stage = "failed"
    if result.outcome == "cancelled":
        stage = "cancelled"
    elif result.outcome in ("forgot_too_much", "not_recognised"):
        stage = "rejected"
    message, full = result.message or result.outcome, result.outcome == "disk_full"
    return JobStatus(job, label, stage, 1.0, 0.0, 0, message, *accuracies(result), full)


def failed(job: str, label: str, error: Exception) -> JobStatus:
    """The status of a job that an error has ended."""
    message = str(error) if isinstance(error, NewfoundError) else f"internal error: {error}"
    full = isinstance(error, StorageError)
    return JobStatus(job, label, "failed", 1.0, message=message, storage=full)


def accuracies(result: JobResult) -> tuple[float | None, float | None]:
    """Of the classes known before, all held-out samples together: before and after."""
    old = [a for a in result.accuracy.values() if a.before is not None and a.samples]
    count = sum(a.samples for a in old)
    if not count:
        return None, None
    before = sum(a.samples * (a.before or 0.0) for a in old) / count
    return before, sum(a.samples * a.after for a in old) / count
