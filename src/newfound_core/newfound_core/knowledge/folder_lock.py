# SPDX-License-Identifier: Apache-2.0
"""A lock on a folder that ends with the process that holds it, however it ends."""

import fcntl
import os
from pathlib import Path

from newfound_core.knowledge.errors import LockedError, StorageError


class FolderLock:
    """Holds `<folder>/lock` from construction to `close`, or to the end of the process.

    The kernel drops it when the last descriptor goes, so a killed process leaves no stale lock.
    A child that is given `descriptor` holds the lock, too: it lasts as long as either of them.
    """

    def __init__(self, folder: Path, name: str = "lock") -> None:
        self._path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageError(f"{self._path} cannot be opened: {error}") from error
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self.descriptor, 32, 0).decode(errors="replace") or "unknown"
            os.close(self.descriptor)
            raise LockedError(
                f"{folder} is in use by another process (number {holder}): end that one, or "
                "give this one a folder of its own"
            ) from error
        self._write_number()

    def _write_number(self) -> None:
        """For people: who holds the lock. A full disk is no reason to fail."""
        try:
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, str(os.getpid()).encode(), 0)
        except OSError:
            return

    def close(self) -> None:
        """Let go; a second call does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1
