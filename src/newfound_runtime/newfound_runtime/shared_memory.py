# SPDX-License-Identifier: Apache-2.0
"""Shared memory that Fast DDS leaves behind when a process is killed.

A segment holds camera images, up to 64 MB of memory (config/fastdds.xml), and nobody removes those
of a process that ended by `kill -9`, or for want of memory: on a robot that runs for months they
add up. Each has a lock file that its process holds, and that the kernel lets go when it ends.
"""

import fcntl
import os
import re
import time
from contextlib import suppress
from pathlib import Path

FOLDER = Path("/dev/shm")
_LOCK = re.compile(r"(fastrtps_[0-9a-f]{16})_el")
_STARTING = 30.0  # s in which a process may have made the file and not yet locked it


def remove_dead_segments(folder: Path = FOLDER, youngest: float = _STARTING) -> int:
    """Remove the segments of processes that are gone; how many bytes that were."""
    freed = 0
    with suppress(OSError):  # no such folder: there is no shared memory
        for lock in folder.iterdir():
            if found := _LOCK.fullmatch(lock.name):
                freed += _remove_if_dead(folder / found[1], lock, youngest)
    return freed


def _remove_if_dead(segment: Path, lock: Path, youngest: float) -> int:
    """Somebody else's segments, and those that vanish meanwhile, are left alone."""
    with suppress(OSError):
        if time.time() - lock.stat().st_mtime < youngest:
            return 0
        file = os.open(lock, os.O_RDONLY)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = segment.stat().st_size
            segment.unlink()
            lock.unlink()
            return size
        finally:
            os.close(file)
    return 0
