# SPDX-License-Identifier: Apache-2.0
"""Unknown objects on disk: a folder each, replaced as a whole.

unknowns/<id>/unknown.json
unknowns/<id>/00.jpg, 01.jpg, …    its crops, best first
"""

import json
import math
import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import cv2

from newfound_core.atomic_directory import atomic_directory
from newfound_core.detection.crops import Crop
from newfound_core.detection.unknown_object import State, UnknownObject
from newfound_core.errors import DataError

FORMAT = 1
_NAME = "unknown.json"
_ID = re.compile(r"[a-z0-9]{1,40}")


class UnknownStore:
    """Entries below a folder; whoever is killed while saving leaves the old entry or the new."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for left_over in folder.glob(".*"):
            shutil.rmtree(left_over, ignore_errors=True)

    def save(self, entry: UnknownObject) -> None:
        """Write an entry; raises OSError if the disk refuses."""
        values = asdict(entry)
        values["crops"] = [{"quality": c.quality, "frame": c.frame} for c in entry.crops]
        for name in ("distance", "limit"):  # JSON has no infinity
            values[name] = values[name] if math.isfinite(values[name]) else None
        with atomic_directory(self._place(entry.id), replace=True) as aside:
            for number, crop in enumerate(entry.crops):
                (aside / f"{number:02d}.jpg").write_bytes(crop.image)
            text = json.dumps({"format": FORMAT, **values}, indent=1, ensure_ascii=False)
            (aside / _NAME).write_text(text, encoding="utf-8")

    def remove(self, unknown_id: str) -> None:
        """Remove an entry, if it is there."""
        shutil.rmtree(self._place(unknown_id), ignore_errors=True)

    def load(self) -> tuple[list[UnknownObject], list[str]]:
        """All entries, and a sentence about each that cannot be read and was removed."""
        entries, complaints = [], []
        for place in sorted(self.folder.iterdir()):
            try:
                entries.append(_read(place))
            except (DataError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                complaints.append(f"unknown object {place.name} is damaged: {error!r}")
                shutil.rmtree(place, ignore_errors=True)
        return entries, complaints

    def _place(self, unknown_id: str) -> Path:
        if not _ID.fullmatch(unknown_id):
            raise DataError(f"{unknown_id[:60]!r} is not an id of an unknown object")
        return self.folder / unknown_id


def _read(place: Path) -> UnknownObject:
    values: dict[str, Any] = json.loads((place / _NAME).read_text(encoding="utf-8"))
    if values.pop("format") != FORMAT or values["id"] != place.name:
        raise DataError(f"{place / _NAME} is not of format {FORMAT}, or of another object")
    if values["state"] not in get_args(State):
        raise DataError(f"state is {values['state']!r}")
    crops = tuple(
        _crop(place / f"{number:02d}.jpg", **crop) for number, crop in enumerate(values["crops"])
    )
    left, top, right, bottom = map(float, values["box"])
    infinite = {n: math.inf if values[n] is None else values[n] for n in ("distance", "limit")}
    return UnknownObject(**values | infinite | {"crops": crops, "box": (left, top, right, bottom)})


def _crop(path: Path, quality: float, frame: int) -> Crop:
    # Frames are counted from the start of the process: those of an earlier one lie before all.
    crop = Crop(path.read_bytes(), float(quality), int(frame) - 10**9)
    try:
        crop.pixels()
    except cv2.error as error:
        raise DataError(f"{path.name} is no image") from error
    return crop
