# SPDX-License-Identifier: Apache-2.0
"""Unknown objects over many frames: one entry each, announced once, few and young enough.

A track that was unknown often enough, and in most of its sightings, becomes an unknown object,
or one that was there before if it looks the same. Frames only change what is in memory; what
comes back from `update` is for the caller to publish, and `changed` says what to store.
"""

import math
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from newfound_core.detection.crops import Crop, keep_best, quality_of
from newfound_core.detection.detector import Detection
from newfound_core.detection.unknown_object import State, UnknownObject
from newfound_core.errors import ConfigError


@dataclass(frozen=True)
class UnknownsConfig:
    """When an unknown is announced, and how much is kept."""

    announce_after: int = 5  # sightings as unknown
    same_similarity: float = 0.85  # of the looks of one object on two tracks
    max_unknowns: int = 100
    max_age: float = 7 * 86400.0  # s since it was last seen
    crops: int = 24  # of each
    crop_gap: int = 3  # frames between two of them

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
    """What a frame is, besides its objects."""

    stamp: int  # ns
    frame_id: str
    width: int
    height: int


@dataclass
class _Track:
    """What has been seen on one track so far."""

    seen: int = 0
    unknown: int = 0
    first_seen: int = 0  # ns
    look: np.ndarray | None = None  # sum over sightings as unknown
    crops: tuple[Crop, ...] = field(default=())
    id: str = ""  # of the unknown object it became


class Unknowns:
    """The unknown objects of a robot."""

    def __init__(self, config: UnknownsConfig | None = None) -> None:
        self.config = config or UnknownsConfig()
        # Ids of entries that are new, different or gone; whoever stores one takes it out.
        self.changed: set[str] = set()
        self._objects: dict[str, UnknownObject] = {}
        self._looks: dict[str, np.ndarray] = {}
        self._told: dict[str, int] = {}  # sightings when it was last reported
        self._tracks: dict[int, _Track] = {}
        self._frame = 0

    # Asking.

    def __len__(self) -> int:
        return len(self._objects)

    def all(self) -> list[UnknownObject]:
        """Every entry, the one seen last at the end."""
        return sorted(self._objects.values(), key=lambda entry: entry.seen_at)

    def get(self, unknown_id: str) -> UnknownObject | None:
        """The entry of an id, if it is valid."""
        return self._objects.get(unknown_id)

    def id_of(self, track: int) -> str:
        """The unknown object that a track shows; empty if it shows none."""
        return self._tracks[track].id if track in self._tracks else ""

    # Frames.

    def update(
        self, view: View, detections: Sequence[Detection], tracks: Sequence[int], live: set[int]
    ) -> list[UnknownObject]:
        """Take in the objects of a frame; return entries to report: new, grown, or expired.

        `tracks` are the numbers of the detections, `live` those of all objects still followed.
        """
        self._frame += 1
        reports = []
        for detection, number in zip(detections, tracks, strict=True):
            track = self._tracks.setdefault(number, _Track(first_seen=view.stamp))
            track.seen += 1
            if detection.known:
                if track.unknown * 2 <= track.seen:
                    track.id = ""  # it has a name by now
                continue
            self._see(track, detection, view)
            if self._is_new(track):
                self._identify(track, detection, view)
            if track.id:
                reports += self._sighting(track, detection, view)
        self._tracks = {number: t for number, t in self._tracks.items() if number in live}
        return reports + self._expire_surplus()

    def _see(self, track: _Track, detection: Detection, view: View) -> None:
        track.unknown += 1
        look = detection.look
        same = track.look is not None and track.look.shape == look.shape
        track.look = track.look + look if same else look.copy()
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

    def _is_new(self, track: _Track) -> bool:
        often = track.unknown >= self.config.announce_after
        return often and track.unknown * 2 > track.seen and track.id not in self._objects

    def _identify(self, track: _Track, detection: Detection, view: View) -> None:
        """Find out which object it is; one never met before gets an entry."""
        assert track.look is not None
        look = track.look / max(float(np.linalg.norm(track.look)), 1e-12)
        track.id = self._resembling(look)
        if track.id:
            return
        track.id = f"u{secrets.token_hex(6)}"
        self._looks[track.id] = look
        self._told[track.id] = 0
        self._objects[track.id] = UnknownObject(
            id=track.id,
            state="waiting",
            sightings=track.unknown - 1,  # this one is counted in a moment
            first_seen=track.first_seen,
            last_seen=view.stamp,
            seen_at=time.time(),
            frame_id=view.frame_id,
            box=_box(detection),
            crops=track.crops,
            nearest_label=detection.nearest_label,
            distance=detection.distance,
            rejection_threshold=detection.rejection_threshold,
        )

    def _resembling(self, look: np.ndarray) -> str:
        """The entry that looks the same, if there is one that is not on another track."""
        taken = {track.id for track in self._tracks.values()}
        ids = [
            i for i, other in self._looks.items() if other.shape == look.shape and i not in taken
        ]
        if not ids:
            return ""
        similarity = np.stack([self._looks[i] for i in ids]) @ look
        best = int(similarity.argmax())
        return ids[best] if similarity[best] >= self.config.same_similarity else ""

    def _sighting(self, track: _Track, detection: Detection, view: View) -> list[UnknownObject]:
        entry = replace(
            self._objects[track.id],
            sightings=self._objects[track.id].sightings + 1,
            last_seen=view.stamp,
            seen_at=time.time(),
            frame_id=view.frame_id,
            box=_box(detection),
            crops=track.crops,
            nearest_label=detection.nearest_label,
            distance=detection.distance,
            rejection_threshold=detection.rejection_threshold,
        )
        self._objects[track.id] = entry
        self.changed.add(track.id)
        if track.id not in self._looks:
            self._looks[track.id] = detection.look.copy()
        # Told again each time it was seen twice as often: few reports, and the last is no older
        # than half of what there is to say.
        if entry.state == "dismissed" or entry.sightings < 2 * self._told.get(track.id, 0):
            return []
        self._told[track.id] = entry.sightings
        return [entry]

    # Thresholds.

    def expire(self, now: float) -> list[UnknownObject]:
        """Remove entries that were not seen for too long, and return them."""
        old = [e for e in self.all() if now - e.seen_at > self.config.max_age]
        return [self._removed(e, "expired") for e in old if e.state != "learning"]

    def _expire_surplus(self) -> list[UnknownObject]:
        surplus = len(self._objects) - self.config.max_unknowns
        if surplus <= 0:
            return []
        spare = [entry for entry in self.all() if entry.state != "learning"]
        return [self._removed(entry, "expired") for entry in spare[:surplus]]

    def _removed(self, entry: UnknownObject, state: State) -> UnknownObject:
        del self._objects[entry.id]
        self.changed.add(entry.id)
        self._looks.pop(entry.id, None)
        self._told.pop(entry.id, None)
        for track in self._tracks.values():
            if track.id == entry.id:
                track.id, track.unknown, track.seen = "", 0, 0
        return replace(entry, state=state)

    # What others say.

    def mark(self, unknown_id: str, state: State, label: str = "") -> UnknownObject | None:
        """Change the state of an entry; "learned" removes it. None if there is no such entry."""
        entry = self._objects.get(unknown_id)
        if entry is None:
            return None
        entry = replace(entry, state=state, label=label)
        self.changed.add(unknown_id)
        if state in ("learned", "expired"):
            return self._removed(entry, state)
        self._objects[unknown_id] = entry
        return entry

    def restore(self, entries: Iterable[UnknownObject]) -> None:
        """Take over entries that were stored; `use_looks` makes them comparable."""
        for entry in entries:
            self._objects[entry.id] = entry
            self._told[entry.id] = entry.sightings

    def use_looks(self, looks: Mapping[str, np.ndarray], *, same_network: bool = False) -> None:
        """Begin to use other knowledge: compare by these looks (`looks_of_entries`) from now on.

        What was known or unknown to the knowledge before does not count any more. Looks of the
        same network stay; of another one, an entry without gets its own when it is next seen.
        """
        looks = {**looks, **self._looks} if same_network else looks
        self._looks = {name: look for name, look in looks.items() if name in self._objects}
        for track in self._tracks.values():
            track.seen = track.unknown = 0
            track.look = track.look if same_network else None


def _box(detection: Detection) -> tuple[float, float, float, float]:
    left, top, right, bottom = detection.box.tolist()
    return left, top, right, bottom
