# SPDX-License-Identifier: Apache-2.0
"""Learning jobs, one at a time, each in a process of its own; crashes of either side are survived.

A thread takes the oldest job, starts or finds its process, follows it, and hands the result over
to be switched to. Everything that matters is in the job's folder: after a crash the queue goes
on where it was.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from newfound_core.errors import NewfoundError
from newfound_core.open_world import job as jobs
from newfound_core.open_world.job import Job, JobResult
from newfound_nodes.open_world.job_folders import JobFolders
from newfound_nodes.open_world.job_status import JobStatus, accuracies, ended, failed, following
from newfound_nodes.open_world.learner_process import COMMAND, LearnerProcess

_log = logging.getLogger(__name__)
_POLL = 0.2  # s between two looks at a process
_CANCEL_PATIENCE = 5.0  # s that it may take to see that it is cancelled


class QueueFullError(NewfoundError):
    """There are as many jobs as there may be."""


class StuckError(NewfoundError):
    """A learning process does nothing any more."""


@dataclass(frozen=True)
class Switching:
    """How the owner of the knowledge takes part; called from the queue's thread."""

    version: Callable[[], int]  # in use now
    adopt: Callable[[str, str, Path], int]  # job, label, checkpoint; returns the new version
    report: Callable[[JobStatus], None]  # every change of a job's status


class LearningQueue:
    """Accepts jobs and sees to them until it is closed."""

    def __init__(
        self,
        root: Path,
        switching: Switching,
        *,
        limit: int = 10,
        attempts: int = 5,
        patience: float = 600.0,  # s that a process may be without progress
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.folders = JobFolders(root)
        self._switching = switching
        self._limit, self._attempts, self._command = limit, attempts, command
        self._patience = patience
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._statuses = {
            name: JobStatus(name, self.folders.label(name), "queued")
            for name in self.folders.unfinished()
        }
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="learning-queue", daemon=True)
        self._thread.start()

    # For others, from any thread.

    def add(self, job: Job, images: Mapping[str, bytes]) -> tuple[str, int]:
        """Queue a job; return its id and how many are before it."""
        with self._lock:
            before = self._room()
            name = self.folders.create(job, images)
            status = JobStatus(name, job.label, "queued", message=f"{before} jobs before it")
            self._statuses[name] = status
        self._report(status)
        with self._lock:
            self._wake.notify_all()
        return name, before

    def check_room(self) -> None:
        """Raise a QueueFullError if no job would be taken."""
        with self._lock:
            self._room()

    def cancel_at_work(self) -> JobStatus | None:
        """Ask the job at work, or the next one, to stop; None if there is none."""
        with self._lock:
            first = min(self._open(), key=lambda status: status.job, default=None)
        return first if first is not None and self.cancel(first.job) else None

    def cancel(self, name: str) -> bool:
        """Ask a job to stop; False if it is final or not known."""
        with self._lock:
            if name not in [status.job for status in self._open()]:
                return False
            jobs.cancel(self.folders.folder(name))
            self._wake.notify_all()
        return True

    def status(self, name: str) -> JobStatus | None:
        """Where a job is; None if it was never there, or long ago."""
        with self._lock:
            return self._statuses.get(name) or self.folders.status(name)

    def labels(self) -> set[str]:
        """What is being learned, or will be."""
        with self._lock:
            return {status.label for status in self._open()}

    @property
    def busy(self) -> bool:
        """Whether a job is queued or at work."""
        with self._lock:
            return bool(self._open())

    def close(self) -> None:
        """Stop; a process at work is ended, and its job resumed by the next queue."""
        with self._lock:
            self._closing = True
            self._wake.notify_all()
        self._thread.join()

    # The thread.

    def _run(self) -> None:
        while (name := self._next()) is not None:
            try:
                status = self._see_to(name)
            except Exception as error:  # one job's trouble must not end the queue
                if not isinstance(error, NewfoundError):
                    _log.exception("job %s failed", name)
                status = failed(name, self.folders.label(name), error)
            if status is not None:
                self.folders.finish(name, status)
                self._report(status)

    def _next(self) -> str | None:
        with self._lock:
            while not self._closing:
                waiting = sorted(status.job for status in self._open())
                if waiting:
                    return waiting[0]
                self._wake.wait()
        return None

    def _see_to(self, name: str) -> JobStatus | None:
        """Bring a job to its end; None if the queue is closed before."""
        label = self.folders.label(name)
        if not label:
            return JobStatus(name, label, "failed", 1.0, message="its job.json is damaged")
        folder = self.folders.folder(name)
        why = "it was started too often"
        while (result := self.folders.result(name)) is None:
            process = LearnerProcess.find(folder)
            if process is None:
                if jobs.is_cancelled(folder):
                    return ended(name, label, JobResult("cancelled"))
                if self.folders.begin(name, self._switching.version()) > self._attempts:
                    return JobStatus(name, label, "failed", 1.0, message=why)
                process = LearnerProcess.start(folder, self._command)
            if not self._follow(process, name, label):
                return None
            why = process.how_it_ended()
        return self._conclude(name, label, result)

    def _follow(self, process: LearnerProcess, name: str, label: str) -> bool:
        """Report until there is a result or the process has ended; False if closed before."""
        folder = self.folders.folder(name)
        deadline, last, since = math.inf, None, time.monotonic()
        try:
            # The result is written last: whoever then takes his time to end has nothing to do.
            while process.running() and self.folders.result(name) is None:
                progress = jobs.read_progress(folder)
                if progress != last:
                    last, since = progress, time.monotonic()
                self._report(following(name, label, progress))
                if not self._wait():
                    self.folders.interrupted(name)
                    return False
                if jobs.is_cancelled(folder):
                    deadline = min(deadline, time.monotonic() + _CANCEL_PATIENCE)
                if time.monotonic() > deadline:
                    process.stop()
                if time.monotonic() - since > self._patience:
                    raise StuckError(
                        f"the learning process made no progress in {self._patience:g} s"
                    )
        finally:
            process.stop()
        return True

    def _wait(self) -> bool:
        """A moment, or until something happens; False if the queue is closed."""
        with self._lock:
            if not self._closing:
                self._wake.wait(_POLL)
            return not self._closing

    def _conclude(self, name: str, label: str, result: JobResult) -> JobStatus | None:
        if not result.learned:
            return ended(name, label, result)
        before, after = accuracies(result)
        if self.folders.base(name) != self._switching.version() and not self._adopted(name):
            # Learned on top of knowledge that is not in use any more: learn it again.
            self.folders.reset(name)
            return self._see_to(name)
        self._report(JobStatus(name, label, "switching", 0.99))
        try:
            checkpoint = self.folders.folder(name) / jobs.CHECKPOINT_NAME
            version = self._switching.adopt(name, label, checkpoint)
        except NewfoundError as error:
            return failed(name, label, error)
        return JobStatus(name, label, "done", 1.0, 0.0, version, result.message, before, after)

    def _adopted(self, name: str) -> bool:
        """Whether the result was moved to the versions by a process that was then killed."""
        return not (self.folders.folder(name) / jobs.CHECKPOINT_NAME).exists()

    # Inside.

    def _room(self) -> int:
        """How many jobs there are, if one more may be."""
        count = len(self._open())
        if count >= self._limit:
            raise QueueFullError(f"{count} jobs are queued, which is the limit")
        return count

    def _open(self) -> list[JobStatus]:
        return [status for status in self._statuses.values() if not status.final]

    def _report(self, status: JobStatus) -> None:
        with self._lock:
            if self._statuses.get(status.job) == status and status.stage != "queued":
                return
            self._statuses[status.job] = status
            final = [s.job for s in self._statuses.values() if s.final]
            for old in final[:-100]:
                del self._statuses[old]
        try:
            self._switching.report(status)
        except Exception:
            _log.exception("reporting the status of job %s failed", status.job)
