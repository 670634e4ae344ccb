# SPDX-License-Identifier: Apache-2.0
"""The process that learns: started once per job, at low priority, and found again after a crash.

The process inherits a lock on its job and so holds it exactly as long as it lives. When the node
was killed, the next one finds the lock held, and follows that process instead of starting
another. Which process it is, the kernel knows: no number on disk could be that of another by now.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from newfound_core.errors import LockedError, StorageError
from newfound_core.storage import FolderLock

COMMAND = (sys.executable, "-m", "newfound_training", "learn", "--job")
LOCK, LOG = "process.lock", "log.txt"
_PATIENCE = 5.0  # s that a process asked to end may take


class LearnerProcess:
    """A process at work on a job, ours or one that an earlier node left behind."""

    def __init__(self, job: Path, child: "subprocess.Popen[bytes] | None") -> None:
        self._job = job
        self._child = child

    @classmethod
    def find(cls, job: Path) -> "LearnerProcess | None":
        """The process that an earlier node left at work, if there is one."""
        found = cls(job, None)
        return found if found.running() else None

    @classmethod
    def start(cls, job: Path, command: Sequence[str] = COMMAND) -> "LearnerProcess":
        """Start one; raises LockedError if one is at work, StorageError if it cannot be."""
        lock = FolderLock(job, LOCK)
        try:
            with (job / LOG).open("ab") as log:
                child = subprocess.Popen(
                    [*command, str(job)],
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
            FolderLock(self._job, LOCK).close()
        except LockedError:
            return True
        return False

    def how_it_ended(self) -> str:
        """For people: exit code or signal, and the end of what it printed."""
        code = self._child.returncode if self._child else None
        how = "ended" if code is None else f"ended with signal {-code}" if code < 0 else ""
        try:
            said = (self._job / LOG).read_text(errors="replace").strip()[-500:]
        except OSError:
            said = ""
        return f"the learning process {how or f'ended with code {code}'}. It said last: {said}"

    def stop(self) -> None:
        """End it; it can be resumed by another."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            if not self.running() or (number := self._number()) is None:
                return
            with suppress(ProcessLookupError):
                os.kill(number, how)
            end = time.monotonic() + _PATIENCE
            while self.running() and time.monotonic() < end:
                time.sleep(0.02)

    def _number(self) -> int | None:
        return self._child.pid if self._child else _holder(self._job / LOCK)


def _holder(lock: Path) -> int | None:
    """The process, other than this one, that has a lock open."""
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        number = int(descriptor.parts[2])
        with suppress(OSError):  # it has ended, or is somebody else's
            if number != os.getpid() and descriptor.samefile(lock):
                return number
    return None
