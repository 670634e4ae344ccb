# SPDX-License-Identifier: Apache-2.0
"""Unknown objects on disk: a folder each, replaced as a whole.

What cannot be read is somebody's exemplars all the same: it stays until it would have expired.

unknowns/<id>/unknown.json
unknowns/<id>/00.jpg, 01.jpg, …    its crops, best first
"""

import math
import re
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import cv2

from newfound_core.detection.crops import Crop
from newfound_core.detection.unknown_object import State, UnknownObject
from newfound_core.errors import DataError
from newfound_core.storage import (
    atomic_directory,
    read_format,
    remove_leftovers,
    remove_tree,
    write_json,
)

FORMAT = 1
_NAME = "unknown.json"
_ID = re.compile(r"[a-z0-9]{1,40}")


class UnknownStore:
    """Entries below a folder; whoever is killed while saving leaves the old entry or the new."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._unreadable: set[Path] = set()
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)

    def save(self, entry: UnknownObject) -> None:
        """Write an entry; raises OSError if the disk refuses."""
        values = asdict(entry)
        values["crops"] = [{"quality": c.quality, "frame": c.frame} for c in entry.crops]
        for name in ("distance", "rejection_threshold"):  # JSON has no infinity
            values[name] = values[name] if math.isfinite(values[name]) else None
        with atomic_directory(self._place(entry.id), replace=True) as aside:
            for number, crop in enumerate(entry.crops):
                (aside / f"{number:02d}.jpg").write_bytes(crop.image)
            write_json(aside / _NAME, {"format": FORMAT, **values})

    def remove(self, unknown_id: str) -> None:
        """Remove an entry, if it is there; raises OSError if the disk refuses."""
        remove_tree(self._place(unknown_id))

    def load(self) -> tuple[list[UnknownObject], list[str]]:
        """All entries, and a sentence about each that cannot be read, or not completely."""
        entries, complaints = [], []
        self._unreadable = set()
        for place in sorted(self.folder.iterdir()):
            if not _ID.fullmatch(place.name):
                continue
            try:
                entry, lost = _read(place)
            except (DataError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                complaints.append(f"unknown object {place.name} cannot be read: {error!r}")
                self._unreadable.add(place)
                continue
            entries.append(entry)
            if lost:
                complaints.append(f"views of unknown object {place.name} are damaged: {lost}")
        return entries, complaints

    def expire_unreadable(self, max_number: int, oldest: float) -> None:
        """Hold what could not be read to the limits of the others; it was seen when written."""
        written = sorted((_written(place), place) for place in self._unreadable)
        surplus = len(written) - max_number
        for number, (moment, place) in enumerate(written):
            if number < surplus or moment < oldest:
                remove_tree(place)
                self._unreadable.discard(place)

    def _place(self, unknown_id: str) -> Path:
        if not _ID.fullmatch(unknown_id):
            raise DataError(f"{unknown_id[:60]!r} is not an id of an unknown object")
        return self.folder / unknown_id


def _written(place: Path) -> float:
    try:
        return place.stat().st_mtime
    except OSError:
        return math.inf


def _read(place: Path) -> tuple[UnknownObject, str]:
    """An entry with those of its views that are images, and the names of the others."""
    values = read_format(place / _NAME, FORMAT)
    if values["id"] != place.name:
        raise DataError(f"{place / _NAME} is of another object")
    if values["state"] not in get_args(State):
        raise DataError(f"state is {values['state']!r}")
    names = [f"{number:02d}.jpg" for number in range(len(values["crops"]))]
    read = [_crop(place / n, **crop) for n, crop in zip(names, values["crops"], strict=True)]
    lost = [name for name, crop in zip(names, read, strict=True) if crop is None]
    if names and names == lost:
        raise DataError("none of its views is an image")
    left, top, right, bottom = map(float, values["box"])
    values |= {n: math.inf for n in ("distance", "rejection_threshold") if values[n] is None}
    values |= {"crops": tuple(c for c in read if c), "box": (left, top, right, bottom)}
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
