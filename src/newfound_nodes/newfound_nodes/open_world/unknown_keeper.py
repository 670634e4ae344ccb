# SPDX-License-Identifier: Apache-2.0
"""The unknown objects of a detector: in memory for frames, on disk for the next start."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from newfound_core.detection.detector import Detection
from newfound_core.detection.unknown_object import State, UnknownObject
from newfound_core.detection.unknown_store import UnknownStore
from newfound_core.detection.unknowns import Unknowns, UnknownsConfig, View

_log = logging.getLogger(__name__)


class UnknownKeeper:
    """Frames from one thread, requests from others; the disk has a thread of its own.

    What others are told of is stored at once, what else has changed about once a minute.
    """

    def __init__(
        self,
        config: UnknownsConfig,
        tell: Callable[[UnknownObject], None],  # must not ask us anything
        store_every: float = 60.0,  # s
        complain: Callable[[str], None] = _log.error,
    ) -> None:
        self._unknowns, self._tell = Unknowns(config), tell
        self._lock = threading.Lock()
        self._complain = complain
        self._refused: dict[str, str] = {}  # entries that could not be stored, and why
        self._store: UnknownStore | None = None
        # Nothing of a frame's path waits for the disk.
        self._disk = ThreadPoolExecutor(1, "unknowns-to-disk")
        self._store_every, self._last_stored = store_every, time.monotonic()

    def open(self, folder: Path) -> list[str]:
        """Take over what was stored; a sentence about each that cannot be read."""
        self._store = UnknownStore(folder)
        entries, complaints = self._store.load()
        self._unknowns.restore(entries)
        return complaints

    def close(self) -> None:
        """Store everything that has changed."""
        self._disk.shutdown()
        if self._store is not None:
            self._write_changes()
        self._store = None

    def get(self, unknown_id: str) -> UnknownObject | None:
        """The entry of an id, if there is one."""
        with self._lock:
            return self._unknowns.get(unknown_id)

    def all(self) -> list[UnknownObject]:
        """Every entry, the one seen last at the end."""
        with self._lock:
            return self._unknowns.all()

    def trouble(self) -> str:
        """What could not be stored; empty if all is well."""
        with self._lock:
            reason = next(reversed(self._refused.values()), "")
            return reason and f"{len(self._refused)} unknown objects are not stored: {reason}"

    def tell(self, unknown_id: str) -> None:
        """Report an entry again as it is now, if there is one."""
        with self._lock:
            entry = self._unknowns.get(unknown_id)
            if entry is not None:
                self._tell(entry)

    def see(
        self, view: View, found: Sequence[Detection], tracks: Sequence[int], live: set[int]
    ) -> list[str]:
        """Take in the objects of a frame; the unknown object that each of them is, or ""."""
        with self._lock:
            for entry in self._unknowns.update(view, found, tracks, live):
                self._report(entry)
            return [self._unknowns.id_of(track) for track in tracks]

    def mark(self, unknown_id: str, state: State, label: str = "") -> None:
        """Change the state of an entry, if there is one."""
        with self._lock:
            self._mark(unknown_id, state, label)

    def release(self, unknown_id: str, label: str) -> None:
        """An entry that waits is of a class that is known by now."""
        with self._lock:
            entry = self._unknowns.get(unknown_id)
            if entry is not None and entry.state == "waiting":
                self._mark(unknown_id, "learned", label)

    def use_looks(self, looks: Mapping[str, np.ndarray], *, same_network: bool = False) -> None:
        """Begin to use other knowledge, and compare by these looks."""
        with self._lock:
            self._unknowns.use_looks(looks, same_network=same_network)

    def tidy(self) -> None:
        """Now and then: remove what was not seen for too long, store what has changed."""
        with self._lock:
            for entry in self._unknowns.expire(time.time()):
                self._report(entry)
        if time.monotonic() - self._last_stored >= self._store_every:
            self._last_stored = time.monotonic()
            self._disk.submit(self._write_changes)

    def _mark(self, unknown_id: str, state: State, label: str) -> None:
        entry = self._unknowns.mark(unknown_id, state, label)
        if entry is not None:
            self._report(entry)

    def _report(self, entry: UnknownObject) -> None:
        """With the lock held: what others hear last is how it is."""
        self._disk.submit(self._write, entry.id)
        self._tell(entry)

    # In the thread of the disk.

    def _write_changes(self) -> None:
        assert self._store is not None
        with self._lock:
            changed = sorted(self._unknowns.changed)
        for unknown_id in changed:
            self._write(unknown_id)
        config = self._unknowns.config
        try:
            self._store.expire_unreadable(config.max_unknowns, time.time() - config.max_age)
        except OSError as error:
            self._complain(f"unknown objects could not be removed: {error}")

    def _write(self, unknown_id: str) -> None:
        """Make the disk hold what we hold now, whatever it was at the time of the change."""
        assert self._store is not None
        with self._lock:
            if unknown_id not in self._unknowns.changed:
                return
            self._unknowns.changed.discard(unknown_id)
            entry = self._unknowns.get(unknown_id)
        try:
            if entry is None:
                self._store.remove(unknown_id)
            else:
                self._store.save(entry)
        except OSError as error:
            with self._lock:
                self._unknowns.changed.add(unknown_id)  # it is tried again
                self._refused[unknown_id] = str(error)
            self._complain(f"unknown object {unknown_id} could not be stored: {error}")
        else:
            with self._lock:
                self._refused.pop(unknown_id, None)
