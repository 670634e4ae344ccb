# SPDX-License-Identifier: Apache-2.0
"""Learning jobs, one at a time; crashes are survived.

A thread takes the oldest job, starts or finds what learns it, follows that, and has the result
adopted. A job that trains is learned by a process of its own; one that does not takes less time
than such a process needs to start, and may be learned by a thread. Everything that matters is in
the job's folder: after a crash the next queue resumes it.
"""

import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from newfound_core.errors import LockedError, NewfoundError, StorageError
from newfound_core.learning.job import Job, JobResult, JobState, JobStatus
from newfound_core.learning.job_folder import JobFolder, JobFolders
from newfound_core.learning.learn import InterruptedJobError, finish_job
from newfound_core.storage import FolderLock
from newfound_runtime.services import RequestError

_log = logging.getLogger(__name__)
COMMAND = (sys.executable, "-m", "newfound_core.learning", "--job")
_LOCK = "process.lock"
_POLL = 0.2  # s between two checks of a process
_CANCEL_TIMEOUT = 5.0  # s that it may take to notice that it is cancelled
_STOP_TIMEOUT = 5.0  # s that a process asked to end may take


class JobOwner(Protocol):
    """The owner of the knowledge that jobs change; called from the queue's thread."""

    def version(self) -> int:
        """The version in use now."""
        ...

    def adopt(self, job: str, label: str, checkpoint: Path) -> int:
        """Use the result of a job; returns the new version. May raise a NewfoundError."""
        ...

    def job_changed(self, status: JobStatus, job: Job | None) -> None:
        """A job is somewhere else; `job` is None if its folder is damaged."""
        ...


class LearningQueue:
    """Accepts jobs and works on them, oldest first, until it is closed."""

    def __init__(
        self,
        root: Path,
        owner: JobOwner,
        *,
        limit: int = 10,
        attempts: int = 5,
        timeout: float = 600.0,  # s that a process may be without progress
        command: Sequence[str] = COMMAND,
        in_process: int | None = None,  # niceness of threads for jobs that do not train
    ) -> None:
        self.folders = JobFolders(root)
        self._owner = owner
        self._limit, self._attempts, self._timeout = limit, attempts, timeout
        self._command, self._in_process = command, in_process
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._jobs: dict[str, Job | None] = self.folders.unfinished()
        self._statuses = {
            name: JobStatus(name, job.label if job else "") for name, job in self._jobs.items()
        }
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="learning-queue", daemon=True)

    def start(self) -> None:
        """Begin to work; jobs that were left unfinished come first."""
        self._thread.start()

    # Any thread.

    def add(
        self,
        job: Job,
        images: Mapping[str, bytes],
        masks: Mapping[str, bytes] = MappingProxyType({}),
    ) -> tuple[str, int]:
        """Queue a job; return its id and how many are before it."""
        with self._lock:
            before = self._check_room()
            name = self.folders.create(job, images, masks)
            status = JobStatus(name, job.label, message=f"{before} jobs before it")
            self._statuses[name], self._jobs[name] = status, job
        self._report(status)
        with self._lock:
            self._wake.notify_all()
        return name, before

    def check_room(self) -> None:
        """Raise a RequestError if no further job is accepted."""
        with self._lock:
            self._check_room()

    def cancel_current(self) -> JobStatus | None:
        """Ask the job at work, or the next one, to stop; None if there is none."""
        with self._lock:
            first = min(self._open(), key=lambda status: status.job, default=None)
        return first if first is not None and self.cancel(first.job) else None

    def cancel(self, name: str) -> bool:
        """Ask a job to stop; False if it is final or not known."""
        with self._lock:
            if name not in [status.job for status in self._open()]:
                return False
            self.folders[name].cancel()
            self._wake.notify_all()
        return True

    def status(self, name: str) -> JobStatus | None:
        """Where a job is; None if it was never there, or long ago."""
        with self._lock:
            return self._statuses.get(name) or self.folders.status(name)

    def labels(self) -> set[str]:
        """Labels of the classes that are being learned, or will be."""
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
        if self._thread.is_alive():
            self._thread.join()

    # The queue's thread.

    def _run(self) -> None:
        while (name := self._next()) is not None:
            label = self._statuses[name].label
            try:
                if self.folders.job(name) is None:
                    raise NewfoundError("its job.json is damaged")
                status = self._work_on(name, label)
            except Exception as error:  # an error of one job must not end the queue
                if not isinstance(error, NewfoundError):
                    _log.exception("job %s failed", name)
                status = JobStatus.failed(name, label, error)
            if status is not None:
                with suppress(StorageError):  # the folder is gone: there is nothing to finish
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

    def _work_on(self, name: str, label: str) -> JobStatus | None:
        """Bring a job to its end; None if the queue is closed before."""
        folder = self.folders[name]
        why = "it was started too often"
        while (result := folder.result()) is None:
            process: Learner | None = LearnerProcess.find(folder)
            if process is None:
                if folder.cancelled:
                    return JobStatus.ended(name, label, JobResult(JobState.CANCELLED))
                if folder.begin(self._owner.version()) > self._attempts:
                    return JobStatus.failed(name, label, why)
                process = self._start(folder)
            if not self._follow(process, name, label):
                return None
            why = process.how_it_ended()
        return self._conclude(name, label, result)

    def _start(self, folder: JobFolder) -> "Learner":
        if self._in_process is not None and not folder.read().options.trains:
            return LearnerThread(folder, self._in_process, self._notify)
        return LearnerProcess.start(folder, self._command)

    def _notify(self) -> None:
        with self._lock:
            self._wake.notify_all()

    def _follow(self, process: "Learner", name: str, label: str) -> bool:
        """Report until there is a result or the process has ended; False if closed before."""
        folder = self.folders[name]
        deadline, last, since = math.inf, None, time.monotonic()
        try:
            # The result is written last: a process that then takes its time to end is not needed.
            while process.running() and folder.result() is None:
                progress = folder.progress()
                if progress != last:
                    last, since = progress, time.monotonic()
                self._report(JobStatus.following(name, label, progress))
                if not self._wait():
                    folder.interrupted()
                    return False
                if folder.cancelled:
                    deadline = min(deadline, time.monotonic() + _CANCEL_TIMEOUT)
                if time.monotonic() > deadline:
                    process.stop()
                if time.monotonic() - since > self._timeout:
                    raise NewfoundError(
                        f"the learning process made no progress in {self._timeout:g} s"
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
        if result.state is not JobState.DONE:
            return JobStatus.ended(name, label, result)
        folder = self.folders[name]
        adopted = not folder.result_path.exists()  # by a process that was killed after that
        if folder.base != self._owner.version() and not adopted:
            # Learned on top of knowledge that is not in use any more: learn it again.
            folder.reset()
            return self._work_on(name, label)
        self._report(JobStatus(name, label, JobState.SWITCHING, 0.99))
        version = self._owner.adopt(name, label, folder.result_path)
        return JobStatus.ended(name, label, result, version)

    # Inside.

    def _check_room(self) -> int:
        """How many jobs there are, if one more may be added."""
        count = len(self._open())
        if count >= self._limit:
            raise RequestError("BUSY", f"{count} jobs are queued, which is the limit")
        return count

    def _open(self) -> list[JobStatus]:
        return [status for status in self._statuses.values() if not status.state.final]

    def _report(self, status: JobStatus) -> None:
        with self._lock:
            if self._statuses.get(status.job) == status and status.state is not JobState.QUEUED:
                return
            self._statuses[status.job] = status
            job = self._jobs.get(status.job)
            for old in [s.job for s in self._statuses.values() if s.state.final][:-100]:
                del self._statuses[old]
                self._jobs.pop(old, None)
        try:
            self._owner.job_changed(status, job)
        except Exception:
            _log.exception("reporting the status of job %s failed", status.job)


class Learner(Protocol):
    """What works on a job."""

    def running(self) -> bool:
        """Whether it is still at work."""
        ...

    def how_it_ended(self) -> str:
        """For a person, if there is no result."""
        ...

    def stop(self) -> None:
        """End it; the job can be resumed by another."""
        ...


class LearnerThread:
    """A thread of this process, of low priority, at work on a job that does not train."""

    def __init__(self, job: JobFolder, niceness: int, on_end: Callable[[], None]) -> None:
        """Start it; raises LockedError if a process is at work."""
        self._job, self._niceness, self._on_end = job, niceness, on_end
        self._stopping, self._ended, self._error = threading.Event(), threading.Event(), ""
        self._lock = FolderLock(job.path, _LOCK)
        self._thread = threading.Thread(target=self._run, name="learner", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            # On Linux priorities are of threads; those that torch starts here inherit it.
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._niceness)
            finish_job(self._job.path, interrupted=self._stopping.is_set)
        except InterruptedJobError:
            pass
        except Exception as error:  # of writing the result: there is no other way to say it
            self._error = f": {error}"
        finally:
            self._lock.close()
            self._ended.set()
            self._on_end()

    def running(self) -> bool:
        """Whether it is still at work."""
        return not self._ended.is_set()

    def how_it_ended(self) -> str:
        """For a person, if there is no result."""
        return f"learning ended without a result{self._error}"

    def stop(self) -> None:
        """End it soon; the job can be resumed by another."""
        self._stopping.set()
        self._ended.wait(_STOP_TIMEOUT)


class LearnerProcess:
    """A process at work on a job, ours or one that an earlier node left behind.

    The process inherits a lock on its job and so holds it exactly as long as it lives. When the
    node was killed, the next one finds the lock held, and follows that process instead of
    starting another. Which process it is, the kernel knows: a number on disk might be that of
    another process by now.
    """

    def __init__(self, job: JobFolder, child: "subprocess.Popen[bytes] | None") -> None:
        self._job = job
        self._child = child

    @classmethod
    def find(cls, job: JobFolder) -> "LearnerProcess | None":
        """The process that an earlier node left at work, if there is one."""
        found = cls(job, None)
        return found if found.running() else None

    @classmethod
    def start(cls, job: JobFolder, command: Sequence[str] = COMMAND) -> "LearnerProcess":
        """Start one; raises LockedError if one is at work, StorageError if it cannot be."""
        lock = FolderLock(job.path, _LOCK)
        try:
            with job.log.open("ab") as log:
                child = subprocess.Popen(
                    [*command, str(job.path)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=[lock.descriptor],
                    start_new_session=True,  # Ctrl-C is for the node, which ends it in order
                )
        except OSError as error:
            raise StorageError(f"the learning process cannot be started: {error}") from error
        finally:
            lock.close()
        return cls(job, child)

    def running(self) -> bool:
        """Whether it is still at work."""
        if self._child is not None:
            return self._child.poll() is None
        try:
            FolderLock(self._job.path, _LOCK).close()
        except LockedError:
            return True
        return False

    def how_it_ended(self) -> str:
        """Exit code or signal, and the end of what it printed."""
        code = self._child.returncode if self._child else None
        how = "ended" if code is None else f"ended with signal {-code}" if code < 0 else ""
        try:
            said = self._job.log.read_text(errors="replace").strip()[-500:]
        except OSError:
            said = ""
        return f"the learning process {how or f'ended with code {code}'}. It said last: {said}"

    def stop(self) -> None:
        """End it; it can be resumed by another."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            if not self.running() or (pid := self._pid()) is None:
                return
            with suppress(ProcessLookupError):
                os.kill(pid, how)
            end = time.monotonic() + _STOP_TIMEOUT
            while self.running() and time.monotonic() < end:
                time.sleep(0.02)

    def _pid(self) -> int | None:
        return self._child.pid if self._child else _holder(self._job.path / _LOCK)


def _holder(lock: Path) -> int | None:
    """The pid of the process, other than this one, that has a lock open."""
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        pid = int(descriptor.parts[2])
        with suppress(OSError):  # it has ended, or is another user's
            if pid != os.getpid() and descriptor.samefile(lock):
                return pid
    return None
