# SPDX-License-Identifier: Apache-2.0
"""What was fetched or computed before, on disk: a limited number of bytes for a limited time."""

import contextlib
import hashlib
import os
import tempfile
import time
from pathlib import Path

_CHECKSUM = 32  # bytes in front of the content
_SUFFIX = ".cached"


class DiskCache:
    """Bytes by key. Losing an entry costs time only, so every failure here is a miss.

    Entries are written aside and renamed, so that a reader never sees half of one, and carry a
    checksum, so that a damaged disk does not speak for a provider. The oldest go first when the
    limit is reached. Keys are hashed: nothing of them becomes a file name.
    """

    def __init__(self, folder: Path, max_bytes: int, max_age: float) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._max_age = max_age  # s
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
        """Keep these bytes; a full disk only means that they are not kept."""
        if self._max_bytes <= 0:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor, aside = tempfile.mkstemp(dir=self._folder, suffix=".writing")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(hashlib.sha256(content).digest() + content)
                Path(aside).replace(self._path(kind, key))
            except OSError:
                Path(aside).unlink(missing_ok=True)
                raise
            self._make_room()
        except OSError:
            self.failures += 1

    def _path(self, kind: str, key: str) -> Path:
        name = hashlib.sha256(f"{kind}\n{key}".encode()).hexdigest()
        return self._folder / f"{name}{_SUFFIX}"

    def _make_room(self) -> None:
        entries = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self._max_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size
