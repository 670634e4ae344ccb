# SPDX-License-Identifier: Apache-2.0
"""Disk cache of provider answers, images and features, limited in bytes and age."""

import contextlib
import hashlib
import threading
import time
from pathlib import Path

from newfound_core.storage import write_bytes

_CHECKSUM = 32  # bytes in front of the content
_SUFFIX = ".cached"


class DiskCache:
    """Bytes by key. Losing an entry only costs time, so every failure here is a cache miss.

    Entries carry a checksum: a damaged disk must not pass for a provider's answer. The oldest
    entries are removed when the limit is reached. Keys are hashed: none becomes a file name.
    """

    def __init__(self, folder: Path, max_bytes: int, max_age: float) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._max_age = max_age  # s
        self._writing = threading.Lock()  # `write_bytes` expects one writer per file and process
        self.failures = 0  # how often an entry could not be written

    def get(self, kind: str, key: str) -> bytes | None:
        """The bytes stored under this key, unless they are too old or damaged."""
        path = self._path(kind, key)
        try:
            if time.time() - path.stat().st_mtime > self._max_age:
                return None
            stored = path.read_bytes()
        except OSError:
            return None
        content = stored[_CHECKSUM:]
        return content if hashlib.sha256(content).digest() == stored[:_CHECKSUM] else None

    def put(self, kind: str, key: str, content: bytes) -> None:
        """Store these bytes; a full disk is counted in `failures` and otherwise ignored."""
        if self._max_bytes <= 0:
            return
        try:
            with self._writing:
                checksum = hashlib.sha256(content).digest()
                write_bytes(self._path(kind, key), checksum + content)
                self._make_room()
        except OSError:
            self.failures += 1

    def _path(self, kind: str, key: str) -> Path:
        name = hashlib.sha256(f"{kind}\n{key}".encode()).hexdigest()
        return self._folder / f"{name}{_SUFFIX}"

    def _make_room(self) -> None:
        entries = []
        # With what killed processes left half written, which ages like any other entry.
        for path in [*self._folder.glob(f"*{_SUFFIX}"), *self._folder.glob(f".*{_SUFFIX}.*")]:
            with contextlib.suppress(FileNotFoundError):  # removed by another process
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self._max_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size
