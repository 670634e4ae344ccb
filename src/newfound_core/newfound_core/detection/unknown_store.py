# SPDX-License-Identifier: Apache-2.0
"""The store of unknown objects: tracked over frames, announced once, kept on disk.

A track that is worth a question (`announcements`) becomes an unknown object, or an earlier one if
both are the same (`same_object`). Entries that turn out to be one object are merged: the older id
stays. Frames come from one thread and change only memory; requests come from others; files are
written by a thread of the store. What is published is stored at once, what else has changed about
once a minute.
"""

import logging
import math
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from newfound_core.detection.announcements import (
    AnnouncementRules,
    Track,
    TracksOfFrame,
    is_cut,
    reason_to_wait,
)
from newfound_core.detection.crops import keep_best, merge_crops, quality_of
from newfound_core.detection.detector import Detection
from newfound_core.detection.same_object import ObjectIndex, Others, View
from newfound_core.detection.unknown_objects import UnknownObject, UnknownState
from newfound_core.detection.unknown_writer import UnknownWriter
from newfound_core.errors import ConfigError

_log = logging.getLogger(__name__)
_MERGE_EVERY = 5  # frames between two comparisons of what is visible with all entries
_MERGED_KEPT = 1000  # ids of merged entries under which the one they became is still found
_MERGEABLE = (UnknownState.WAITING, UnknownState.DISMISSED)
_SAME_POSITION = 0.04  # m between what two cameras measure of one object
_NOWHERE = np.zeros(4, np.float32)  # boxes of two cameras are not compared
_MAY_EXPIRE = (UnknownState.WAITING,)  # what was dismissed would be asked about again


class UnknownEvents(Protocol):
    """What the store tells its owner, from any thread; must not call the store back."""

    def unknown_changed(self, entry: UnknownObject) -> None:
        """An entry is new, or has changed in a way that others should know of."""
        ...

    def storage_failed(self, message: str) -> None:
        """The disk refuses; the store tries again."""
        ...


@dataclass(frozen=True)
class UnknownsConfig(AnnouncementRules):
    """When an unknown is announced, what is the same object, and how much is kept."""

    same_similarity: float = 0.9  # cosine of the embeddings of one object on two tracks
    same_place_similarity: float = 0.7  # the same where it was a moment ago
    same_place_seconds: float = 5.0  # how long that is
    max_unknowns: int = 100  # and as many that were dismissed
    max_age: float = 7 * 86400.0  # s since it was last seen
    crops: int = 24  # of each
    crop_gap: int = 3  # frames between two of them
    store_every: float = 60.0  # s

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_unknowns", "crops", "crop_gap"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("same_similarity", "same_place_similarity"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be in (0, 1], got {getattr(self, name)}")
        if not 0 <= self.same_place_seconds < math.inf:
            raise ConfigError(
                f"same_place_seconds must be at least 0, got {self.same_place_seconds}"
            )
        if not self.max_age > 0 or math.isnan(self.max_age):
            raise ConfigError(f"max_age must be positive, got {self.max_age}")


class UnknownStore:
    """The unknown objects of a robot, in memory for frames and on disk for the next start."""

    def __init__(self, config: UnknownsConfig, events: UnknownEvents) -> None:
        self.config, self._events = config, events
        self._lock = threading.Lock()
        self._objects: dict[str, UnknownObject] = {}
        self._index = ObjectIndex(
            config.same_similarity, config.same_place_similarity, config.same_place_seconds
        )
        self._published: dict[str, int] = {}  # sightings when it was last published
        self._merged: OrderedDict[str, str] = OrderedDict()  # ids, and what they became
        self._tracks: dict[int, Track] = {}
        self._updated: set[str] = set()  # entries seen in this frame
        self._frame = 0
        self._writer = UnknownWriter(
            self._current,
            events.storage_failed,
            every=config.store_every,
            max_number=config.max_unknowns,
            max_age=config.max_age,
        )

    def open(self, folder: Path) -> list[str]:
        """Take over what was stored; a warning about each entry that cannot be read."""
        entries, warnings = self._writer.open(folder)
        for entry in entries:
            self._objects[entry.id] = entry
            self._published[entry.id] = entry.sightings
            self._index.place(entry.id, entry.box, _view(entry))
        return warnings

    def close(self) -> None:
        """Store everything that has changed."""
        self._writer.close()

    # Reading.

    def get(self, unknown_id: str) -> UnknownObject | None:
        """The entry of an id, if it is valid, or the one that it was merged into."""
        with self._lock:
            return self._objects.get(self._merged.get(unknown_id, unknown_id))

    def all(self) -> list[UnknownObject]:
        """Every entry, the one seen last at the end."""
        with self._lock:
            return self._by_age()

    def held_back(self) -> Mapping[str, int]:
        """How many of the unknown objects seen now are not announced, by the reason."""
        with self._lock:
            return Counter(track.waits for track in self._tracks.values() if track.waits)

    def problem(self) -> str:
        """What could not be stored; empty if all is well."""
        return self._writer.problem()

    # Frames.

    def update(
        self, view: View, detections: Sequence[Detection], tracks: Sequence[int], live: set[int]
    ) -> list[str]:
        """Take in the objects of a frame; the id of the unknown object that each is, or "".

        `tracks` are the numbers of the detections, `live` those of all objects still tracked.
        """
        with self._lock:
            self._frame += 1
            self._updated.clear()
            count = len(self._objects)
            seen = [
                self._tracks.setdefault(number, Track(view.stamp, self._frame))
                for number in tracks
            ]
            together = TracksOfFrame(seen, detections)
            together.take_apart(self._dismissed)
            for row, detection in enumerate(detections):
                self._update_track(seen[row], detection, view)
                self._note_others(together, row)
            self._tracks = {number: t for number, t in self._tracks.items() if number in live}
            if self._frame % _MERGE_EVERY == 0:
                self._merge_duplicates(seen, view)
            if len(self._objects) > count:
                self._expire_surplus()
            return [self._tracks[n].id if n in self._tracks else "" for n in tracks]

    def _note_others(self, together: TracksOfFrame, row: int) -> None:
        """What is seen in one frame in two places is two objects."""
        track = together.tracks[row]
        others = together.others(row)
        track.others.add(others)
        if track.id in self._index:
            self._index.note_others(track.id, others)
            together.tell(row)

    def _update_track(self, track: Track, detection: Detection, view: View) -> None:
        track.add(detection, view, self._frame, self.config.announce_after)
        track.waits = ""
        if detection.known:
            if not track.mostly_unknown:
                track.id = ""  # it has a label by now
            return
        self._keep_crop(track, detection, view)
        if track.id not in self._objects:
            self._identify(track, detection, view)
        if track.id and not track.strange:
            self._update_entry(track, detection, view)

    def _keep_crop(self, track: Track, detection: Detection, view: View) -> None:
        quality = quality_of(detection.crop, detection.objectness, not is_cut(detection.box, view))
        crops = self._objects[track.id].crops if track.id in self._objects else track.crops
        track.crops = keep_best(
            crops,
            detection.crop,
            quality,
            self._frame,
            count=self.config.crops,
            gap=self.config.crop_gap,
        )

    def _identify(self, track: Track, detection: Detection, view: View) -> None:
        """Find out which object a track shows; one never met before gets an entry, if worth it."""
        track.id = ""
        track.waits = reason_to_wait(self.config, track, view)
        if track.unknown < self.config.announce_after or not track.mostly_unknown:
            return
        embedding = track.embedding()
        others = track.others.without(self._dismissed)
        track.id = next(self._index.find(embedding, detection.box, view, others), "")
        if track.id or track.waits:
            track.waits = "" if track.id else track.waits
            return
        track.id = _new_id()
        self._index.place(track.id, detection.box, view)
        self._index.follow(track.id, embedding)
        self._index.note_others(track.id, track.others)
        self._published[track.id] = 0
        self._objects[track.id] = UnknownObject(
            id=track.id,
            state=UnknownState.WAITING,
            sightings=track.unknown - 1,  # this one is counted in a moment
            first_seen=track.first_seen,
            **self._sighting(track, detection, view),
        )

    def _dismissed(self, unknown_id: str) -> bool:
        entry = self._objects.get(unknown_id)
        return entry is not None and entry.state == UnknownState.DISMISSED

    def _sighting(self, track: Track, detection: Detection, view: View) -> dict[str, Any]:
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
            "stability": track.stability,
        }

    def _update_entry(self, track: Track, detection: Detection, view: View) -> None:
        if track.id in self._updated:
            return  # two boxes of one object
        self._updated.add(track.id)
        before = self._objects[track.id]
        entry = replace(
            before, sightings=before.sightings + 1, **self._sighting(track, detection, view)
        )
        self._objects[track.id] = entry
        self._writer.note(track.id)
        self._index.place(track.id, detection.box, view)
        self._index.follow(track.id, detection.embedding)
        self._publish_if_due(entry)

    def _publish_if_due(self, entry: UnknownObject) -> None:
        """Again each time it was seen twice as often: few messages, the last not much older."""
        if entry.state == UnknownState.DISMISSED:
            return
        if entry.sightings >= 2 * self._published.get(entry.id, 0):
            self._published[entry.id] = entry.sightings
            self._publish(entry)

    def _merge_duplicates(self, seen: Sequence[Track], view: View) -> None:
        for unknown_id in {track.id for track in seen if track.id}:
            if unknown_id not in self._objects:  # merged a moment ago
                continue
            for other in self._index.duplicates(unknown_id, view):
                pair = sorted(
                    (self._objects[unknown_id], self._objects[other]),
                    key=lambda entry: (entry.first_seen, entry.id),
                )
                if all(entry.state in _MERGEABLE for entry in pair):
                    self._merge(*pair)
                    break

    def _merge(self, older: UnknownObject, younger: UnknownObject) -> None:
        """Take two entries for one object; whichever was dismissed, it is."""
        dismissed = UnknownState.DISMISSED in (older.state, younger.state)
        latest = max(older, younger, key=lambda entry: entry.last_seen)
        merged = replace(
            latest,
            id=older.id,
            state=UnknownState.DISMISSED if dismissed else UnknownState.WAITING,
            sightings=older.sightings + younger.sightings,
            first_seen=older.first_seen,
            crops=merge_crops(
                older.crops, younger.crops, count=self.config.crops, gap=self.config.crop_gap
            ),
        )
        for track in self._tracks.values():
            track.id = older.id if track.id == younger.id else track.id
            track.others.replace(younger.id, older.id)
        self._objects[older.id] = merged
        self._objects.pop(younger.id)
        self._published.pop(younger.id, None)
        self._index.remove(younger.id, older.id)
        self._writer.note(older.id)
        self._writer.note(younger.id)
        self._merged[younger.id] = older.id
        for earlier, into in self._merged.items():
            self._merged[earlier] = older.id if into == younger.id else into
        while len(self._merged) > _MERGED_KEPT:
            self._merged.popitem(last=False)
        self._publish(replace(younger, state=UnknownState.MERGED, merged_into=older.id))
        self._published[older.id] = merged.sightings
        if older.state != UnknownState.DISMISSED:
            self._publish(merged)

    def note_position(self, unknown_id: str, frame: str, point: Sequence[float]) -> None:
        """Note where an object is, in a frame that all cameras share."""
        with self._lock:
            if (entry := self._objects.get(unknown_id)) is not None:
                x, y, z = (float(value) for value in point)
                entry = replace(entry, position_frame=frame, position=(x, y, z))
                self._objects[unknown_id] = entry

    # Requests.

    def take_in(
        self, seen: UnknownObject, embedding: np.ndarray, known_as: str, others: Set[str]
    ) -> UnknownObject | None:
        """Take in what another camera has seen; the entry that it is part of, if it is kept.

        `known_as`: the entry of its last report, if any; sightings of `seen` are those since
        then. `others`: entries that it certainly is not.
        """
        with self._lock:
            entry = self._objects.get(self._merged.get(known_as, known_as))
            if entry is None:
                entry = self._objects.get(self._find_reported(seen, embedding, others))
            if entry is None:
                entry = replace(seen, id=_new_id(), state=UnknownState.WAITING, sightings=0)
                self._index.place(entry.id, _NOWHERE, _view(entry))
            self._index.follow(entry.id, embedding)
            self._take_views(entry, seen)
            self._expire_surplus()
            return self._objects.get(entry.id)

    def _find_reported(self, seen: UnknownObject, embedding: np.ndarray, others: Set[str]) -> str:
        not_these = Others(set(others), set(others))
        alike = self._index.find(embedding, _NOWHERE, _view(seen), not_these)
        if found := next(alike, ""):
            return found
        # Where one thing stands there is no other, however different its sides look.
        apart = {
            entry.id: _distance(entry, seen, self.config.same_place_seconds)
            for entry in self._objects.values()
            if entry.id not in others
        }
        nearest = min(apart, key=lambda unknown_id: apart[unknown_id], default="")
        return nearest if nearest and apart[nearest] <= _SAME_POSITION else ""

    def _take_views(self, entry: UnknownObject, seen: UnknownObject) -> None:
        there = {crop.image for crop in entry.crops}
        new = tuple(crop for crop in seen.crops if crop.image not in there)
        entry = replace(
            entry,
            crops=merge_crops(entry.crops, new, count=self.config.crops, gap=self.config.crop_gap),
            sightings=entry.sightings + seen.sightings,
            last_seen=max(entry.last_seen, seen.last_seen),
            seen_at=max(entry.seen_at, seen.seen_at),
        )
        self._objects[entry.id] = entry
        self._writer.note(entry.id)
        self._publish_if_due(entry)

    def mark(self, unknown_id: str, state: UnknownState, label: str = "") -> None:
        """Change the state of an entry, if there is one; "learned" removes it."""
        with self._lock:
            entry = self._objects.get(self._merged.get(unknown_id, unknown_id))
            if entry is not None:
                self._set_state(entry, state, label)

    def merge(self, unknown_id: str, other_id: str) -> str:
        """Take two entries for one because someone says so; the id that stays.

        That is the entry seen first, or `other_id`. Raises a KeyError, with the id, if there is no
        such entry, or both are one already.
        """
        with self._lock:
            ids = [self._merged.get(each, each) for each in (unknown_id, other_id)]
            for each in ids:
                if each not in self._objects or ids[0] == ids[1]:
                    raise KeyError(each)
            pair = [self._objects[each] for each in reversed(ids)]
            stays, goes = sorted(pair, key=lambda entry: entry.first_seen)
            self._merge(stays, goes)
            return stays.id

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
            kept = self._index.embeddings() if same_network else {}
            self._index.replace_embeddings({**embeddings, **kept})
            for track in self._tracks.values():
                track.restart(track.first_seen, self._frame + 1)

    def tick(self) -> None:
        """Remove what was not seen for too long, store what has changed; call it regularly."""
        with self._lock:
            oldest = time.time() - self.config.max_age
            for entry in self._by_age():
                if entry.seen_at < oldest and entry.state in _MAY_EXPIRE:
                    self._set_state(entry, UnknownState.EXPIRED, entry.label)
        self._writer.tick()

    def _current(self, unknown_id: str) -> UnknownObject | None:
        with self._lock:
            return self._objects.get(unknown_id)

    # With the lock held.

    def _by_age(self) -> list[UnknownObject]:
        return sorted(self._objects.values(), key=lambda entry: entry.seen_at)

    def _expire_surplus(self) -> None:
        """Limit the number of entries, and that of the dismissed ones, which are kept beside."""
        if len(self._objects) <= self.config.max_unknowns:
            return
        by_age = self._by_age()
        dismissed = [e for e in by_age if e.state == UnknownState.DISMISSED]
        others = [e for e in by_age if e.state != UnknownState.DISMISSED]
        for entries in (dismissed, others):
            spare = [e for e in entries if e.state != UnknownState.LEARNING]
            for entry in spare[: max(0, len(entries) - self.config.max_unknowns)]:
                self._set_state(entry, UnknownState.EXPIRED, entry.label)

    def _set_state(self, entry: UnknownObject, state: UnknownState, label: str) -> None:
        entry = replace(entry, state=state, label=label)
        self._objects[entry.id] = entry
        self._writer.note(entry.id)
        if state in (UnknownState.LEARNED, UnknownState.EXPIRED):
            self._remove(entry.id)
        self._publish(entry)

    def _remove(self, unknown_id: str) -> None:
        del self._objects[unknown_id]
        self._index.remove(unknown_id)
        self._published.pop(unknown_id, None)
        for track in self._tracks.values():
            track.others.replace(unknown_id, "")
            if track.id == unknown_id:
                track.id = ""
                track.restart(track.first_seen, self._frame + 1)

    def _publish(self, entry: UnknownObject) -> None:
        """Called with the lock held, so that reports stay in order."""
        self._writer.write_soon(entry.id)
        self._events.unknown_changed(entry)


def _new_id() -> str:
    return f"u{secrets.token_hex(6)}"


def _view(entry: UnknownObject) -> View:
    return View(entry.last_seen, entry.frame_id, 0, 0)


def _distance(one: UnknownObject, other: UnknownObject, seconds: float) -> float:
    """Between what two cameras see at one time (m); infinite if that cannot be said."""
    if not one.position_frame or one.position_frame != other.position_frame:
        return math.inf
    together = abs(one.last_seen - other.last_seen) <= seconds * 1e9
    return math.dist(one.position, other.position) if together else math.inf
