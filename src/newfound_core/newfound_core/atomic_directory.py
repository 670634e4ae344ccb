# SPDX-License-Identifier: Apache-2.0
"""A directory that appears complete or not at all, whatever happens while it is written."""

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def atomic_directory(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """Gives a sibling to write into, and renames it to the target if the block succeeds.

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
        flush_tree(aside)
        if replace and target.exists():
            _exchange(aside, target)
        else:
            _rename(aside, target)
        flush(target.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)  # a failed attempt, or what was replaced


def flush_tree(directory: Path) -> None:
    """Makes the kernel write everything below a directory to the disk."""
    for folder, _, files in os.walk(directory):
        for file in files:
            flush(Path(folder) / file)
        flush(Path(folder))


def flush(path: Path) -> None:
    """Makes the kernel write a file, or the entries of a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
