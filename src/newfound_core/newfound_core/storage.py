# SPDX-License-Identifier: Apache-2.0
"""Crash-safe files: atomic writes with fsync, JSON, directories that appear whole, a folder lock.

Whatever is written here is complete or not there at all, also after a kill -9 or a power cut. An
interrupted writer leaves hidden files (`.<name>.part…`, `.<name>.writing-…`) that nothing reads;
`remove_leftovers` sweeps them. Imports neither torch nor OpenCV.
"""

import ctypes
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from newfound_core.errors import DataError, LockedError, StorageError

_LEFTOVERS = (".*.part*", ".*.writing-*", ".*.removing")
_MAX_JSON_BYTES = 64 * 2**20  # a larger file is not one of ours
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces `path` in one step if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part{os.getpid()}")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        fsync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader, or a crash, sees the old or the new one."""
    with atomic_file(path) as file:
        file.write(content)


def write_json(path: Path, values: Any) -> None:
    """Replace a JSON file in one step; NaN and infinity are a ValueError, JSON has neither."""
    text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, text.encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; anything else is a DataError, a missing file a FileNotFoundError."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a number")

    try:
        if path.stat().st_size > _MAX_JSON_BYTES:
            raise ValueError(f"it is larger than {_MAX_JSON_BYTES} bytes")
        values = json.loads(path.read_bytes(), parse_constant=refuse)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:  # not UTF-8 and not JSON included
        raise DataError(f"{path} is damaged: {error}") from error
    if not isinstance(values, dict):
        raise DataError(f"{path} is damaged: it holds a {type(values).__name__}, no object")
    return values


def read_format(path: Path, version: int) -> dict[str, Any]:
    """Read a JSON object that says `"format": version`; the rest of it is returned."""
    values = read_json(path)
    found = values.pop("format", None)
    if found != version:
        raise DataError(f"{path} is of format {found!r}, this version of newfound reads {version}")
    return values


@contextmanager
def atomic_directory(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """Give a sibling to write into, and rename it to the target if the block succeeds.

    If the block raises, the sibling is removed. If the process is killed, a hidden folder
    `.<name>.writing-…` stays behind, which nothing reads and anyone may delete.

    An existing target (but for an empty folder) raises FileExistsError; with `replace` it is
    exchanged in one step by the kernel, and then removed. Where the file system cannot do
    that, an OSError is raised and the old one stays.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{target.name}.writing-"
    aside = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    try:
        aside.chmod(0o755)  # mkdtemp's own mode would hide it from other users for good
        yield aside
        fsync_tree(aside)
        if replace and target.exists():
            _exchange(aside, target)
        else:
            _rename(aside, target)
        fsync(target.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)  # a failed attempt, or what was replaced


def fsync_tree(directory: Path) -> None:
    """Have the kernel write everything below a directory to the disk."""
    for folder, _, files in os.walk(directory):
        for file in files:
            fsync(Path(folder) / file)
        fsync(Path(folder))


def fsync(path: Path) -> None:
    """Have the kernel write a file, or the entries of a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path, stem: str = "") -> None:
    """Remove what interrupted writers of files that begin with `stem` left behind.

    Only for the one process that writes them.
    """
    for pattern in _LEFTOVERS:
        for entry in folder.glob(f".{stem}{pattern[1:]}"):
            with suppress(OSError):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def remove_tree(folder: Path) -> None:
    """Remove a folder: renamed first, so that it is never seen half removed."""
    aside = folder.with_name(f".{folder.name}.removing")
    with suppress(FileNotFoundError):
        folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _rename(aside: Path, target: Path) -> None:
    try:
        aside.rename(target)  # the kernel refuses if the target is a file or a filled directory
    except OSError as error:
        if target.exists() or target.is_symlink():
            raise FileExistsError(f"{target} exists already") from error
        raise


def _exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot exchange directories: {os.strerror(code)}", str(other))


class FolderLock:
    """Holds `<folder>/lock` from construction to `close`, or to the end of the process.

    The kernel drops it when the last descriptor goes, so a killed process leaves no stale lock.
    A child that is given `descriptor` holds the lock, too: it lasts as long as either of them.
    """

    def __init__(self, folder: Path, name: str = "lock") -> None:
        self._path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageError(f"{self._path} cannot be opened: {error}") from error
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self.descriptor, 32, 0).decode(errors="replace") or "unknown"
            os.close(self.descriptor)
            raise LockedError(
                f"{folder} is in use by another process (pid {holder}): end that one, or "
                "give this one a folder of its own"
            ) from error
        self._write_pid()

    def _write_pid(self) -> None:
        """For people: who holds the lock. A full disk is no reason to fail."""
        try:
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, str(os.getpid()).encode(), 0)
        except OSError:
            return

    def close(self) -> None:
        """Let go; a second call does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1
