# SPDX-License-Identifier: Apache-2.0
"""The store of unknown objects: tracked over frames, announced once, kept on disk.

A track that was unknown often enough, and in most of its sightings, becomes an unknown object, or
an earlier one if their embeddings are alike. Frames come from one thread and change only memory;
requests come from others; files are written by a thread of the store. What is published is stored
at once, what else has changed about once a minute.
"""

import logging
import math
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from newfound_core.detection.crops import Crop, keep_best, quality_of
from newfound_core.detection.detector import Detection
from newfound_core.detection.unknown_objects import UnknownFiles, UnknownObject, UnknownState
from newfound_core.errors import ConfigError

_log = logging.getLogger(__name__)


class UnknownEvents(Protocol):
    """What the store tells its owner, from any thread; must not call the store back."""

    def unknown_changed(self, entry: UnknownObject) -> None:
        """An entry is new, or has changed in a way that others should know of."""
        ...

    def storage_failed(self, message: str) -> None:
        """The disk refuses; the store tries again."""
        ...


@dataclass(frozen=True)
class UnknownsConfig:
    """When an unknown is announced, and how much is kept."""

    announce_after: int = 5  # sightings as unknown
    same_similarity: float = 0.85  # cosine of the embeddings of one object on two tracks
    max_unknowns: int = 100
    max_age: float = 7 * 86400.0  # s since it was last seen
    crops: int = 24  # of each
    crop_gap: int = 3  # frames between two of them
    store_every: float = 60.0  # s

    def __post_init__(self) -> None:
        for name in ("announce_after", "max_unknowns", "crops", "crop_gap"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.same_similarity <= 1:
            raise ConfigError(f"same_similarity must be in (0, 1], got {self.same_similarity}")
        if not self.max_age > 0 or math.isnan(self.max_age):
            raise ConfigError(f"max_age must be positive, got {self.max_age}")


@dataclass(frozen=True)
class View:
    """When, where and how large a frame is."""

    stamp: int  # ns
    frame_id: str
    width: int
    height: int


@dataclass
class _Track:
    """What is known of one track so far."""

    seen: int = 0
    unknown: int = 0
    first_seen: int = 0  # ns
    embedding: np.ndarray | None = None  # sum over sightings as unknown
    crops: tuple[Crop, ...] = field(default=())
    id: str = ""  # of the unknown object it became


class UnknownStore:
    """The unknown objects of a robot, in memory for frames and on disk for the next start."""

    def __init__(self, config: UnknownsConfig, events: UnknownEvents) -> None:
        self.config, self._events = config, events
        self._lock = threading.Lock()
        self._objects: dict[str, UnknownObject] = {}
        self._embeddings: dict[str, np.ndarray] = {}
        self._published: dict[str, int] = {}  # sightings when it was last published
        self._tracks: dict[int, _Track] = {}
        self._frame = 0
        # The disk.
        self._files: UnknownFiles | None = None
        self._changed: set[str] = set()  # ids to write: new, different or gone
        self._not_stored: dict[str, str] = {}  # entries that the disk refused, and why
        self._writer = ThreadPoolExecutor(1, "unknowns-to-disk")
        self._last_stored = time.monotonic()

    def open(self, folder: Path) -> list[str]:
        """Take over what was stored; a warning about each entry that cannot be read."""
        self._files = UnknownFiles(folder)
        entries, warnings = self._files.load()
        for entry in entries:
            self._objects[entry.id] = entry
            self._published[entry.id] = entry.sightings
        return warnings

    def close(self) -> None:
        """Store everything that has changed."""
        self._writer.shutdown()
        if self._files is not None:
            self._write_changes()
        self._files = None

    # Reading.

    def get(self, unknown_id: str) -> UnknownObject | None:
        """The entry of an id, if it is valid."""
        with self._lock:
            return self._objects.get(unknown_id)

    def all(self) -> list[UnknownObject]:
        """Every entry, the one seen last at the end."""
        with self._lock:
            return self._by_age()

    def problem(self) -> str:
        """What could not be stored; empty if all is well."""
        with self._lock:
            reason = next(reversed(self._not_stored.values()), "")
            return reason and f"{len(self._not_stored)} unknown objects are not stored: {reason}"

    # Frames.

    def update(
        self, view: View, detections: Sequence[Detection], tracks: Sequence[int], live: set[int]
    ) -> list[str]:
        """Take in the objects of a frame; the id of the unknown object that each is, or "".

        `tracks` are the numbers of the detections, `live` those of all objects still tracked.
        """
        with self._lock:
            self._frame += 1
            for detection, number in zip(detections, tracks, strict=True):
                track = self._tracks.setdefault(number, _Track(first_seen=view.stamp))
                self._update_track(track, detection, view)
            self._tracks = {number: t for number, t in self._tracks.items() if number in live}
            self._expire_surplus()
            return [self._tracks[n].id if n in self._tracks else "" for n in tracks]

    def _update_track(self, track: _Track, detection: Detection, view: View) -> None:
        track.seen += 1
        if detection.known:
            if track.unknown * 2 <= track.seen:
                track.id = ""  # it has a label by now
            return
        self._add_sighting(track, detection, view)
        often = track.unknown >= self.config.announce_after and track.unknown * 2 > track.seen
        if often and track.id not in self._objects:
            self._identify(track, detection, view)
        if track.id:
            self._update_entry(track, detection, view)

    def _add_sighting(self, track: _Track, detection: Detection, view: View) -> None:
        track.unknown += 1
        new, sum_ = detection.embedding, track.embedding
        track.embedding = (
            sum_ + new if sum_ is not None and sum_.shape == new.shape else new.copy()
        )
        left, top, right, bottom = detection.box
        whole = left > 1 and top > 1 and right < view.width - 1 and bottom < view.height - 1
        quality = quality_of(detection.crop, detection.objectness, whole)
        crops = self._objects[track.id].crops if track.id in self._objects else track.crops
        track.crops = keep_best(
            crops,
            detection.crop,
            quality,
            self._frame,
            count=self.config.crops,
            gap=self.config.crop_gap,
        )

    def _identify(self, track: _Track, detection: Detection, view: View) -> None:
        """Find out which object a track shows; one never met before gets an entry."""
        assert track.embedding is not None
        embedding = track.embedding / max(float(np.linalg.norm(track.embedding)), 1e-12)
        track.id = self._resembling(embedding)
        if track.id:
            return
        track.id = f"u{secrets.token_hex(6)}"
        self._embeddings[track.id] = embedding
        self._published[track.id] = 0
        self._objects[track.id] = UnknownObject(
            id=track.id,
            state=UnknownState.WAITING,
            sightings=track.unknown - 1,  # this one is counted in a moment
            first_seen=track.first_seen,
            **_sighting(track, detection, view),
        )

    def _resembling(self, embedding: np.ndarray) -> str:
        """The entry with a like embedding, if there is one that is not on another track."""
        taken = {track.id for track in self._tracks.values()}
        ids = [
            i
            for i, other in self._embeddings.items()
            if other.shape == embedding.shape and i not in taken
        ]
        if not ids:
            return ""
        similarity = np.stack([self._embeddings[i] for i in ids]) @ embedding
        best = int(similarity.argmax())
        return ids[best] if similarity[best] >= self.config.same_similarity else ""

    def _update_entry(self, track: _Track, detection: Detection, view: View) -> None:
        entry = replace(
            self._objects[track.id],
            sightings=self._objects[track.id].sightings + 1,
            **_sighting(track, detection, view),
        )
        self._objects[track.id] = entry
        self._changed.add(track.id)
        if track.id not in self._embeddings:
            self._embeddings[track.id] = detection.embedding.copy()
        # Published again each time it was seen twice as often: few messages, and the last is no
        # older than half of the sightings.
        if entry.state == UnknownState.DISMISSED:
            return
        if entry.sightings >= 2 * self._published.get(track.id, 0):
            self._published[track.id] = entry.sightings
            self._publish(entry)

    # Requests.

    def mark(self, unknown_id: str, state: UnknownState, label: str = "") -> None:
        """Change the state of an entry, if there is one; "learned" removes it."""
        with self._lock:
            entry = self._objects.get(unknown_id)
            if entry is not None:
                self._set_state(entry, state, label)

    def release(self, unknown_id: str, label: str) -> None:
        """Remove an entry that waits, because its class is known by now."""
        with self._lock:
            entry = self._objects.get(unknown_id)
            if entry is not None and entry.state == UnknownState.WAITING:
                self._set_state(entry, UnknownState.LEARNED, label)

    def announce(self, unknown_id: str) -> None:
        """Publish an entry again as it is now, if there is one."""
        with self._lock:
            entry = self._objects.get(unknown_id)
            if entry is not None:
                self._events.unknown_changed(entry)

    def use_embeddings(
        self, embeddings: Mapping[str, np.ndarray], *, same_network: bool = False
    ) -> None:
        """Begin to use other knowledge: compare by these embeddings (`embed_unknowns`).

        What was known or unknown to the knowledge before does not count any more. Embeddings by
        the same network stay; with another one, an entry without gets its own when next seen.
        """
        with self._lock:
            found = {**embeddings, **self._embeddings} if same_network else embeddings
            self._embeddings = {i: row for i, row in found.items() if i in self._objects}
            for track in self._tracks.values():
                track.seen = track.unknown = 0
                track.embedding = track.embedding if same_network else None

    def tick(self) -> None:
        """Remove what was not seen for too long, store what has changed; call it regularly."""
        with self._lock:
            oldest = time.time() - self.config.max_age
            for entry in self._by_age():
                if entry.seen_at < oldest and entry.state != UnknownState.LEARNING:
                    self._set_state(entry, UnknownState.EXPIRED, entry.label)
        if time.monotonic() - self._last_stored >= self.config.store_every:
            self._last_stored = time.monotonic()
            self._writer.submit(self._write_changes)

    # With the lock held.

    def _by_age(self) -> list[UnknownObject]:
        return sorted(self._objects.values(), key=lambda entry: entry.seen_at)

    def _expire_surplus(self) -> None:
        surplus = len(self._objects) - self.config.max_unknowns
        if surplus > 0:
            spare = [e for e in self._by_age() if e.state != UnknownState.LEARNING]
            for entry in spare[:surplus]:
                self._set_state(entry, UnknownState.EXPIRED, entry.label)

    def _set_state(self, entry: UnknownObject, state: UnknownState, label: str) -> None:
        entry = replace(entry, state=state, label=label)
        self._objects[entry.id] = entry
        self._changed.add(entry.id)
        if state in (UnknownState.LEARNED, UnknownState.EXPIRED):
            self._remove(entry.id)
        self._publish(entry)

    def _remove(self, unknown_id: str) -> None:
        del self._objects[unknown_id]
        self._embeddings.pop(unknown_id, None)
        self._published.pop(unknown_id, None)
        for track in self._tracks.values():
            if track.id == unknown_id:
                track.id, track.unknown, track.seen = "", 0, 0

    def _publish(self, entry: UnknownObject) -> None:
        """Called with the lock held, so that reports stay in order."""
        self._writer.submit(self._write, entry.id)
        self._events.unknown_changed(entry)

    # In the writer thread.

    def _write_changes(self) -> None:
        assert self._files is not None
        with self._lock:
            changed = sorted(self._changed)
        for unknown_id in changed:
            self._write(unknown_id)
        try:
            oldest = time.time() - self.config.max_age
            self._files.expire_unreadable(self.config.max_unknowns, oldest)
        except OSError as error:
            self._events.storage_failed(f"unknown objects could not be removed: {error}")

    def _write(self, unknown_id: str) -> None:
        """Write an entry as it is now, whatever it was at the time of the change."""
        if self._files is None:
            return
        with self._lock:
            if unknown_id not in self._changed:
                return
            self._changed.discard(unknown_id)
            entry = self._objects.get(unknown_id)
        try:
            if entry is None:
                self._files.remove(unknown_id)
            else:
                self._files.save(entry)
        except OSError as error:
            with self._lock:
                self._changed.add(unknown_id)  # it is tried again
                self._not_stored[unknown_id] = str(error)
            self._events.storage_failed(
                f"unknown object {unknown_id} could not be stored: {error}"
            )
        else:
            with self._lock:
                self._not_stored.pop(unknown_id, None)


def _sighting(track: _Track, detection: Detection, view: View) -> dict[str, Any]:
    """What an entry takes over from its last sighting."""
    return {
        "last_seen": view.stamp,
        "seen_at": time.time(),
        "frame_id": view.frame_id,
        "box": tuple(detection.box.tolist()),
        "crops": track.crops,
        "nearest_label": detection.nearest_label,
        "distance": detection.distance,
        "rejection_threshold": detection.rejection_threshold,
    }
