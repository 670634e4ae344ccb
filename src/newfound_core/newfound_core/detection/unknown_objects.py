# SPDX-License-Identifier: Apache-2.0
"""Unknown objects as values, and their files: one folder each, replaced as a whole.

unknowns/<id>/unknown.json
unknowns/<id>/00.jpg, 01.jpg, …    its crops, best first
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import cv2
import numpy as np

from newfound_core.detection.crops import Crop
from newfound_core.errors import DataError
from newfound_core.storage import (
    atomic_directory,
    read_format,
    remove_leftovers,
    remove_tree,
    write_json,
)

FORMAT = 2
_NAME = "unknown.json"
_ID = re.compile(r"[a-z0-9]{1,40}")
_MAY_BE_INFINITE = ("distance", "rejection_threshold")  # JSON has no infinity
_NAMED_VIEWS = 3  # all of which must be given the same label


class UnknownState(StrEnum):
    """What becomes of an unknown object; the names are those of UnknownObject.STATE_*."""

    WAITING = "waiting"  # announced; it has no label yet
    LEARNING = "learning"  # a label was given; a job runs or is queued
    LEARNED = "learned"  # a known class now
    DISMISSED = "dismissed"  # not worth learning
    EXPIRED = "expired"  # removed because of age or number
    MERGED = "merged"  # the same object as another entry, which it is part of from now on


@dataclass(frozen=True)
class UnknownObject:
    """An object that no known class accepts. A value: every change makes a new one."""

    id: str
    state: UnknownState
    sightings: int
    first_seen: int  # ns, stamp of the image
    last_seen: int
    seen_at: float  # s since 1970 by the robot's clock, whatever clock the images carry
    frame_id: str  # of the camera
    box: tuple[float, float, float, float]  # at the last sighting
    crops: tuple[Crop, ...]  # best first
    nearest_label: str
    distance: float
    rejection_threshold: float
    label: str = ""  # given by a person or a provider
    stability: float = 1.0  # 0 to 1, how steadily it was seen; files before it have none
    merged_into: str = ""  # id of the entry it is part of
    position_frame: str = ""  # what `position` is in, such as map; empty: it is not known
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)  # m, at the last sighting


def embed_unknowns(
    entries: Iterable[UnknownObject], embed: Callable[[list[np.ndarray]], np.ndarray]
) -> dict[str, np.ndarray]:
    """The embedding of each entry's best crop, by id."""
    shown = [entry for entry in entries if entry.crops]
    if not shown:
        return {}
    embeddings = embed([entry.crops[0].pixels() for entry in shown])
    return {entry.id: row for entry, row in zip(shown, embeddings, strict=True)}


def label_unknowns(
    entries: Iterable[UnknownObject], label: Callable[[list[np.ndarray]], list[str]]
) -> dict[str, str]:
    """The label of each entry, by id; without those whose best crops get none, or several."""
    shown = [(entry.id, crop) for entry in entries for crop in entry.crops[:_NAMED_VIEWS]]
    if not shown:
        return {}
    labels: dict[str, set[str]] = {}
    for (unknown_id, _), found in zip(shown, label([c.pixels() for _, c in shown]), strict=True):
        labels.setdefault(unknown_id, set()).add(found)
    return {i: min(found) for i, found in labels.items() if len(found) == 1 and min(found)}


class UnknownFiles:
    """Entries below a folder. A process killed while saving leaves the old entry or the new.

    What cannot be read may still hold a person's exemplars: it stays until it would have expired.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._unreadable: set[Path] = set()
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)

    def save(self, entry: UnknownObject) -> None:
        """Write an entry; raises OSError if the disk refuses."""
        values = asdict(entry)
        values["crops"] = [{"quality": c.quality, "frame": c.frame} for c in entry.crops]
        for name in _MAY_BE_INFINITE:
            values[name] = values[name] if math.isfinite(values[name]) else None
        with atomic_directory(self._place(entry.id), replace=True) as aside:
            for number, crop in enumerate(entry.crops):
                (aside / f"{number:02d}.jpg").write_bytes(crop.image)
            write_json(aside / _NAME, {"format": FORMAT, **values})

    def remove(self, unknown_id: str) -> None:
        """Remove an entry, if it is there; raises OSError if the disk refuses."""
        remove_tree(self._place(unknown_id))

    def load(self) -> tuple[list[UnknownObject], list[str]]:
        """All entries, and a warning about each that cannot be read, or not completely."""
        entries, warnings = [], []
        self._unreadable = set()
        for place in sorted(self.folder.iterdir()):
            if not _ID.fullmatch(place.name):
                continue
            try:
                entry, lost = _read(place)
            except (DataError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                warnings.append(f"unknown object {place.name} cannot be read: {error!r}")
                self._unreadable.add(place)
                continue
            entries.append(entry)
            if lost:
                warnings.append(f"views of unknown object {place.name} are damaged: {lost}")
        return entries, warnings

    def expire_unreadable(self, max_number: int, oldest: float) -> None:
        """Apply the limits of number and age to what could not be read."""
        written = sorted((_modified(place), place) for place in self._unreadable)
        surplus = len(written) - max_number
        for number, (moment, place) in enumerate(written):
            if number < surplus or moment < oldest:
                remove_tree(place)
                self._unreadable.discard(place)

    def _place(self, unknown_id: str) -> Path:
        if not _ID.fullmatch(unknown_id):
            raise DataError(f"{unknown_id[:60]!r} is not an id of an unknown object")
        return self.folder / unknown_id


def _modified(place: Path) -> float:
    try:
        return place.stat().st_mtime
    except OSError:
        return math.inf


def _read(place: Path) -> tuple[UnknownObject, str]:
    """An entry with those of its views that are images, and the names of the others."""
    values = read_format(place / _NAME, FORMAT)
    if values["id"] != place.name:
        raise DataError(f"{place / _NAME} is of another object")
    names = [f"{number:02d}.jpg" for number in range(len(values["crops"]))]
    read = [_crop(place / n, **crop) for n, crop in zip(names, values["crops"], strict=True)]
    lost = [name for name, crop in zip(names, read, strict=True) if crop is None]
    if names and names == lost:
        raise DataError("none of its views is an image")
    left, top, right, bottom = map(float, values["box"])
    if "position" in values:
        x, y, z = map(float, values["position"])
        values["position"] = x, y, z
    values |= {n: math.inf for n in _MAY_BE_INFINITE if values[n] is None}
    values |= {"crops": tuple(c for c in read if c), "box": (left, top, right, bottom)}
    values["state"] = UnknownState(values["state"])
    return UnknownObject(**values), ", ".join(lost)


def _crop(path: Path, quality: float, frame: int) -> Crop | None:
    """None if it is no image; raises OSError if it may be one that cannot be read now."""
    try:
        # Frames are counted from the start of the process: those of an earlier one lie before all.
        crop = Crop(path.read_bytes(), float(quality), int(frame) - 10**9)
        crop.pixels()
    except (FileNotFoundError, cv2.error):
        return None
    return crop
