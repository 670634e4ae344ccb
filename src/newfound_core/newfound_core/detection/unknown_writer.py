# SPDX-License-Identifier: Apache-2.0
"""Keeps the files of unknown objects up to date, in a thread of its own."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from newfound_core.detection.unknown_objects import UnknownFiles, UnknownObject


class UnknownWriter:
    """Writes what has changed: at once if told so, else about once in a while.

    Without a folder it writes nothing. What the disk refuses is tried again.
    """

    def __init__(
        self,
        get: Callable[[str], UnknownObject | None],  # an entry as it is now; None: it is gone
        failed: Callable[[str], None],
        *,
        every: float,  # s
        max_number: int,  # of entries that cannot be read, and how old they may be
        max_age: float,
    ) -> None:
        self._get, self._failed = get, failed
        self._every, self._max_number, self._max_age = every, max_number, max_age
        self._files: UnknownFiles | None = None
        self._changed: set[str] = set()  # ids to write: new, different or gone
        self._not_stored: dict[str, str] = {}  # entries that the disk refused, and why
        self._lock = threading.Lock()  # of both; never held while an entry is asked for
        self._thread = ThreadPoolExecutor(1, "unknowns-to-disk")
        self._last = time.monotonic()

    def open(self, folder: Path) -> tuple[list[UnknownObject], list[str]]:
        """What is stored there, and a warning about each entry that cannot be read."""
        self._files = UnknownFiles(folder)
        return self._files.load()

    def close(self) -> None:
        """Store everything that has changed."""
        self._thread.shutdown()
        self._write_changes()
        self._files = None

    def note(self, unknown_id: str) -> None:
        """An entry has changed."""
        with self._lock:
            self._changed.add(unknown_id)

    def write_soon(self, unknown_id: str) -> None:
        """Write an entry, if it has changed, without waiting for the others."""
        self._thread.submit(self._write, unknown_id)

    def tick(self) -> None:
        """Call it regularly."""
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self._thread.submit(self._write_changes)

    def problem(self) -> str:
        """What could not be stored; empty if all is well."""
        with self._lock:
            reason = next(reversed(self._not_stored.values()), "")
            return reason and f"{len(self._not_stored)} unknown objects are not stored: {reason}"

    def _write_changes(self) -> None:
        if self._files is None:
            return
        with self._lock:
            changed = sorted(self._changed)
        for unknown_id in changed:
            self._write(unknown_id)
        try:
            self._files.expire_unreadable(self._max_number, time.time() - self._max_age)
        except OSError as error:
            self._failed(f"unknown objects could not be removed: {error}")

    def _write(self, unknown_id: str) -> None:
        """Write an entry as it is now, whatever it was at the time of the change."""
        if self._files is None:
            return
        with self._lock:
            if unknown_id not in self._changed:
                return
            self._changed.discard(unknown_id)
        entry = self._get(unknown_id)
        try:
            if entry is None:
                self._files.remove(unknown_id)
            else:
                self._files.save(entry)
        except OSError as error:
            with self._lock:
                self._changed.add(unknown_id)  # it is tried again
                self._not_stored[unknown_id] = str(error)
            self._failed(f"unknown object {unknown_id} could not be stored: {error}")
        else:
            with self._lock:
                self._not_stored.pop(unknown_id, None)
