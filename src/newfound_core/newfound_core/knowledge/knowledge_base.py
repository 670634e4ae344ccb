# SPDX-License-Identifier: Apache-2.0
"""Versions on disk, one of them current; killed at any moment, no version is lost or half there.

A version is written to a hidden folder and renamed, then read back, and only then does the link
`current` move to it. The next process finds the old version or the new one in use.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, get_args

from newfound_core.errors import (
    CheckpointError,
    DamagedError,
    DataError,
    KnowledgeError,
    NewfoundError,
    StorageError,
    UnknownVersionError,
)
from newfound_core.storage import (
    FolderLock,
    atomic_directory,
    fsync,
    fsync_tree,
    read_format,
    remove_tree,
    write_json,
)

CURRENT, VERSIONS = "current", "versions"
_NOTE, _NOTE_FORMAT = "note.json", 1  # how a version came about, beside its checkpoint
_NUMBER = re.compile(r"\d{6,}")
Origin = Literal["shipped", "learned"]
T = TypeVar("T")


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


@dataclass(frozen=True)
class Opened(Generic[T]):
    """The version in use."""

    version: int
    content: T  # what the base's `read` made of it
    warnings: list[str] = field(default_factory=list)  # versions that could not be read


class KnowledgeVersions(Generic[T]):
    """The versions below a folder, to be read; another process may own them."""

    def __init__(self, root: Path, read: Callable[[Path], T]) -> None:
        """`read` makes of a version what is used of it, or raises a NewfoundError."""
        self.root = root
        self._read = read

    @property
    def folder_of_versions(self) -> Path:
        """Where the versions are."""
        return self.root / VERSIONS

    @property
    def current(self) -> int | None:
        """The version in use; None if the link is missing or leads nowhere."""
        try:
            target = (self.root / CURRENT).readlink()
        except OSError:
            return None
        inside = target.parent == Path(VERSIONS) and _NUMBER.fullmatch(target.name)
        version = int(target.name) if inside else None
        return version if version in self.versions() else None

    def versions(self) -> list[int]:
        """Every version on disk, ascending; raises a StorageError if the folder is gone."""
        with _disk(self.folder_of_versions):
            found = [e for e in self.folder_of_versions.iterdir() if e.is_dir()]
        return sorted(int(e.name) for e in found if _NUMBER.fullmatch(e.name))

    def folder(self, version: int) -> Path:
        """Where a version is, or would be."""
        return self.folder_of_versions / f"{version:06d}"

    def read(self, version: int) -> T:
        """What a version holds, without using it; raises a NewfoundError."""
        return self._read(self.folder(version))

    def note(self, version: int | None) -> VersionNote | None:
        """How a version came about."""
        return None if version is None else read_note(self.folder(version))

    def version_of_job(self, job: str) -> int | None:
        """The version that a learning job made, if it got that far."""
        notes = ((version, self.note(version)) for version in reversed(self.versions()))
        return next((v for v, note in notes if job and note and note.job == job), None)


class KnowledgeBase(KnowledgeVersions[T]):
    """Versions that are changed. One process at a time: a second one gets a LockedError."""

    def __init__(self, root: Path, read: Callable[[Path], T], keep: int = 10) -> None:
        super().__init__(root, read)
        self._keep = keep
        self._lock = FolderLock(root)
        try:
            with _disk(root):
                self.folder_of_versions.mkdir(exist_ok=True)
                self._sweep()
        except StorageError:
            self.close()
            raise

    def close(self) -> None:
        """Let another process have the folder."""
        self._lock.close()

    # Opening.

    def open(self, shipped: Callable[[Path], Iterable[str]] | None = None) -> Opened[T]:
        """The current version; if it cannot be read, the newest that can, and `current` moves.

        Where there is none, `shipped` is called to write the first one and name its classes.
        """
        current = self.current
        warnings: list[str] = []
        others = [v for v in reversed(self.versions()) if v != current]
        for version in ([current] if current is not None else []) + others:
            try:
                opened = Opened(version, self._read(self.folder(version)), warnings)
            except NewfoundError as error:
                warnings.append(f"version {version} cannot be read: {error}")
                continue
            if version != current:
                self._point_to(version)
            return opened
        return self._start_anew(shipped, warnings)

    def _start_anew(
        self, shipped: Callable[[Path], Iterable[str]] | None, warnings: list[str]
    ) -> Opened[T]:
        if shipped is None:
            reasons = "; ".join(warnings) or "there are no versions"
            raise DamagedError(f"{self.root} holds no knowledge that can be read: {reasons}")
        version = self._add(shipped, "shipped", None)  # nothing is inherited from the damaged
        return Opened(version, self.switch(version), warnings)

    # Changing: a new version is added, and then switched to.

    def problem(self) -> str:
        """What keeps the knowledge base from being changed; empty if nothing does."""
        if self.folder_of_versions.is_dir():
            return ""
        return (
            f"the knowledge base {self.root} was deleted: what is known is in memory only. "
            "Restore the folder, or restart the node to begin with its checkpoint"
        )

    def check(self) -> None:
        """Raise a StorageError if the folder is gone."""
        if problem := self.problem():
            raise StorageError(problem)

    def add(
        self,
        write: Callable[[Path], Iterable[str]],
        reason: str,
        renamed: Mapping[str, str] | None = None,
    ) -> int:
        """Add a version: `write` fills a folder and returns the labels of its classes.

        `renamed` classes, old name to new, are known for as long as they were before.
        """
        before = self.note(self.current)
        if before is not None and renamed:
            classes = {renamed.get(name, name): note for name, note in before.classes.items()}
            before = replace(before, classes=classes)
        return self._add(write, reason, before)

    def adopt(self, folder: Path, labels: Iterable[str], reason: str, job: str) -> int:
        """Add the result of a learning job by moving it here; done twice, it is there once.

        Only a result that is gone was moved before: the id of a job may have been used by one
        whose folder was deleted, or on the robot that the versions were copied from.
        """
        if not folder.is_dir():
            if (there := self.version_of_job(job)) is None:
                raise DamagedError(f"job {job} has no result at {folder}")
            return there
        version = self._next()
        with _disk(folder):
            write_note(folder, _note(self.note(self.current), version, labels, reason, job))
            fsync_tree(folder)
            folder.rename(self.folder(version))
            fsync(self.folder_of_versions)
        return version

    def copy(self, version: int) -> int:
        """Add a version that is equal to an earlier one, to go back to it."""
        if version not in self.versions() or version == self.current:
            known = ", ".join(str(v) for v in self.versions() if v != self.current) or "none"
            raise UnknownVersionError(
                f"there is no version {version} to restore; there are {known}"
            )
        note = self.note(version) or VersionNote("", 0.0)
        new = self._next()
        with _disk(self.folder(new)), atomic_directory(self.folder(new)) as aside:
            shutil.copytree(self.folder(version), aside, dirs_exist_ok=True)
            reason = f"version {version} restored"
            write_note(aside, replace(note, reason=reason, made=time.time(), job=""))
        return new

    def switch(self, version: int, check: Callable[[T], None] = lambda content: None) -> T:
        """Use a version from now on: read it, move `current`, remove versions beyond the limit.

        A version that cannot be read, or of which `check` raises a NewfoundError, is removed,
        and the one before stays in use.
        """
        try:
            content = self._read(self.folder(version))
            check(content)
        except NewfoundError as error:
            self._remove(version)
            raise DamagedError(f"the new version {version} cannot be used: {error}") from error
        self._point_to(version)
        for old in self._superfluous():
            self._remove(old)
        return content

    def _next(self) -> int:
        return max(self.versions(), default=0) + 1

    def _add(
        self, write: Callable[[Path], Iterable[str]], reason: str, before: VersionNote | None
    ) -> int:
        version = self._next()
        with _disk(self.folder(version)), atomic_directory(self.folder(version)) as aside:
            write_note(aside, _note(before, version, write(aside), reason))
        return version

    def _point_to(self, version: int) -> None:
        aside = self.root / f".{CURRENT}.new"
        with _disk(self.root):
            aside.unlink(missing_ok=True)
            aside.symlink_to(Path(VERSIONS) / self.folder(version).name)
            aside.replace(self.root / CURRENT)
            fsync(self.root)

    def _superfluous(self) -> list[int]:
        return [v for v in self.versions()[: -self._keep] if v != self.current]

    def _remove(self, version: int) -> None:
        """Remove a version, unless it is the one in use."""
        if version != self.current:
            with suppress(OSError):
                remove_tree(self.folder(version))

    def _sweep(self) -> None:
        """Remove what interrupted writers left behind; the lock is held, so none is at work."""
        for entry in self.folder_of_versions.glob(".*"):
            shutil.rmtree(entry, ignore_errors=True)


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
    write_json(folder / _NOTE, {"format": _NOTE_FORMAT, **asdict(note)})


def read_note(folder: Path) -> VersionNote | None:
    """The note of a version; None if there is none that can be read, which is no harm."""
    try:
        return _parse_note(read_format(folder / _NOTE, _NOTE_FORMAT))
    except (DataError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _parse_note(values: dict[str, Any]) -> VersionNote:
    classes = {label: ClassNote(**entry) for label, entry in values.pop("classes").items()}
    return VersionNote(**values, classes=classes)


def _note(
    before: VersionNote | None, version: int, labels: Iterable[str], reason: str, job: str = ""
) -> VersionNote:
    made = time.time()
    return VersionNote(reason, made, classes_after(before, labels, version, made), job)


@contextmanager
def _disk(where: Path) -> Iterator[None]:
    """Turn what the operating system refuses into a StorageError."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{where} could not be written: {error}") from error
    except CheckpointError as error:
        if isinstance(error.__cause__, OSError):
            raise StorageError(str(error)) from error
        raise KnowledgeError(str(error)) from error
