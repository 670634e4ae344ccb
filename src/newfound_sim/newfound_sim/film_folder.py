# SPDX-License-Identifier: Apache-2.0
"""The folder of a film in work: what it is for, who works in it, how far it is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from newfound_sim.clip import FILE, ClipError
from newfound_sim.production import sweep, write_whole

WORK = "unfinished"  # the folder, inside the clip's, of what only filming needs
REQUEST = "request.json"


def finished(out: Path, wanted: Mapping[str, Any]) -> bool:
    """Whether the clip is there; refuses a folder that holds another one."""
    path = out / FILE
    if path.exists():
        _compare(path, wanted)
    return path.exists()


@contextlib.contextmanager
def workplace(out: Path, wanted: Mapping[str, Any], files: int) -> Iterator[None]:
    """Let one process at a time film into a folder; the others wait for it."""
    try:
        (out / WORK).mkdir(parents=True, exist_ok=True)
        lock = (out / WORK / "lock").open("w")
    except OSError as error:
        raise ClipError(f"{out} cannot be written: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another process that films into {out}", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        request = out / WORK / REQUEST
        if request.exists():
            _compare(request, wanted)
            sweep(out)
        write_whole(request, json.dumps({"made_from": wanted, "files": files}).encode())
        yield
        shutil.rmtree(out / WORK)


def progress(out: Path) -> tuple[int, int]:
    """How many renderings and pictures of a film in work are made, and how many there will be."""
    try:
        total = int(json.loads((out / WORK / REQUEST).read_text())["files"])
    except (OSError, ValueError, KeyError):
        return 0, 0
    return len([*out.glob("images/*.jpg"), *out.glob(f"{WORK}/*.npz")]), total


def _compare(path: Path, wanted: Mapping[str, Any]) -> None:
    try:
        found = dict(json.loads(path.read_text())["made_from"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClipError(f"{path} is damaged: remove its folder and film again") from error
    other = sorted(k for k in {*found, *wanted} if found.get(k) != wanted.get(k))
    if other:
        raise ClipError(
            f"{path} belongs to another clip, with another {', '.join(other)}: choose another "
            "folder or remove this one"
        )
