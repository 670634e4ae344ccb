# SPDX-License-Identifier: Apache-2.0
"""Unknown objects that other cameras report to the owner of the knowledge they share.

Each camera tracks its own and numbers them by itself. The owner finds out which of its entries a
reported object is, so that nobody is asked twice, and remembers for each camera what its ids are
here.
"""

import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from newfound_core.detection.unknown_objects import UnknownObject, UnknownState
from newfound_core.detection.unknown_store import UnknownStore

_FRAMES_APART = 10**12  # between the frame numbers of two cameras
_GONE = (UnknownState.LEARNED, UnknownState.EXPIRED)
_MOST_REPORTERS = 100


@dataclass
class _Reporter:
    run: str  # changes when the camera's node starts again, and with it all of its ids
    entries: dict[str, tuple[str, int]] = field(default_factory=dict)  # id, sightings reported


class ReportedUnknowns:
    """Takes reports into a store."""

    def __init__(self, store: UnknownStore) -> None:
        self._store = store
        self._reporters: dict[str, _Reporter] = {}
        self._lock = threading.Lock()

    def take(
        self,
        name: str,
        run: str,
        seen: UnknownObject,
        embed: Callable[[np.ndarray], np.ndarray],
    ) -> UnknownObject | None:
        """The entry that a camera's object is; None if there is none any more."""
        with self._lock:
            reporter = self._reporters.pop(name, None)
            if reporter is None or reporter.run != run:
                reporter = _Reporter(run)
            self._reporters[name] = reporter  # the one heard of last at the end
            while len(self._reporters) > _MOST_REPORTERS:
                self._reporters.pop(next(iter(self._reporters)))
            if seen.state in _GONE:
                reporter.entries.pop(seen.id, None)
                return None
            if seen.state == UnknownState.MERGED:
                return self._merge(reporter, seen)
            return self._take(reporter, _renumbered(seen, name), embed)

    def _take(
        self,
        reporter: _Reporter,
        seen: UnknownObject,
        embed: Callable[[np.ndarray], np.ndarray],
    ) -> UnknownObject | None:
        known_as, count = reporter.entries.get(seen.id, ("", 0))
        # What a camera tells apart is not one object.
        others = {entry for own, (entry, _) in reporter.entries.items() if own != seen.id}
        new = replace(seen, sightings=max(0, seen.sightings - count))
        entry = self._store.take_in(new, embed(seen.crops[0].pixels()), known_as, others)
        if entry is None:
            reporter.entries.pop(seen.id, None)
        else:
            reporter.entries[seen.id] = entry.id, seen.sightings
        return entry

    def _merge(self, reporter: _Reporter, seen: UnknownObject) -> UnknownObject | None:
        mine, _ = reporter.entries.pop(seen.id, ("", 0))
        into, _ = reporter.entries.get(seen.merged_into, ("", 0))
        if mine and into:
            with suppress(KeyError):  # they are one, or gone
                self._store.merge(mine, into)
        return self._store.get(into)


def _renumbered(seen: UnknownObject, name: str) -> UnknownObject:
    """Frames of two cameras are never near each other."""
    offset = _FRAMES_APART * (1 + zlib.crc32(name.encode()) % 1000)
    crops = tuple(replace(crop, frame=crop.frame - offset) for crop in seen.crops)
    return replace(seen, crops=crops)
