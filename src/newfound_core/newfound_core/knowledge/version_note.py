# SPDX-License-Identifier: Apache-2.0
"""How a version came about: `note.json` beside its checkpoint."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from newfound_core.errors import DataError
from newfound_core.storage import read_format, write_json

NAME = "note.json"
FORMAT = 1
Origin = Literal["shipped", "learned"]


@dataclass(frozen=True)
class ClassNote:
    """Since when a class is known."""

    origin: Origin
    since_version: int
    learned: float  # s since 1970; 0 if it is not known

    def __post_init__(self) -> None:
        if self.origin not in get_args(Origin) or not isinstance(self.since_version, int):
            raise ValueError(f"not a note of a class: {self}")


@dataclass(frozen=True)
class VersionNote:
    """Why a version was made, when, and since when it has each of its classes."""

    reason: str  # for people
    made: float  # s since 1970
    classes: Mapping[str, ClassNote] = field(default_factory=dict)
    job: str = ""  # the learning job that made it; empty if none did


def classes_after(
    before: VersionNote | None, labels: Iterable[str], version: int, made: float
) -> dict[str, ClassNote]:
    """Notes for the classes of a new version: old ones as they were, new ones learned now."""
    if before is None:
        return {label: ClassNote("shipped", version, 0.0) for label in labels}
    new = ClassNote("learned", version, made)
    return {label: before.classes.get(label, new) for label in labels}


def write_note(folder: Path, note: VersionNote) -> None:
    """Write it into a version that is being made."""
    write_json(folder / NAME, {"format": FORMAT, **asdict(note)})


def read_note(folder: Path) -> VersionNote | None:
    """The note of a version; None if there is none that can be read, which is no harm."""
    try:
        return _note(read_format(folder / NAME, FORMAT))
    except (DataError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _note(values: dict[str, Any]) -> VersionNote:
    classes = {label: ClassNote(**entry) for label, entry in values.pop("classes").items()}
    return VersionNote(**values, classes=classes)
