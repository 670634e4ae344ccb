# SPDX-License-Identifier: Apache-2.0
"""Where fetched images live: one folder for each fetch, whole or not there at all.

<root>/teapot-1f0c9a3b-0001/
    collection.json             label, time, and for each image where it is from
    <sha256 of the file>.jpg
"""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from newfound_core.storage import atomic_directory
from newfound_web.errors import StorageError
from newfound_web.pictures import Picture
from newfound_web.text import folder_name

INDEX = "collection.json"
FORMAT = 1


@dataclass(frozen=True)
class Origin:
    """Where an image is from, as its source states it."""

    provider: str
    source: str = ""  # address of the file; empty for a local library
    page: str = ""  # address of the page about it
    licence: str = ""
    attribution: str = ""


@dataclass(frozen=True)
class StoredImage:
    """An image on disk."""

    file: str
    sha256: str
    width: int
    height: int
    source_sha256: str  # of the file at its source
    origin: Origin


@dataclass(frozen=True)
class Collection:
    """What one fetch has stored."""

    name: str
    images: tuple[StoredImage, ...]


class ImageFolder:
    """The root of all collections, with its limits."""

    def __init__(self, root: Path, max_bytes: int, min_free_bytes: int) -> None:
        self.root = root
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes

    def check(self) -> None:
        """Raise StorageError if nothing can be stored now."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.root).free
            used = sum(f.stat().st_size for f in self.root.rglob("*") if f.is_file())
        except OSError as error:
            raise StorageError(f"the image folder cannot be used: {error}") from error
        if free < self._min_free_bytes:
            raise StorageError(
                f"the disk of the image folder has {free >> 20} MiB left, "
                f"{self._min_free_bytes >> 20} are to stay free"
            )
        if used >= self._max_bytes:
            raise StorageError(
                f"the image folder holds {used >> 20} MiB, {self._max_bytes >> 20} are allowed: "
                "remove collections that are no longer needed"
            )

    def store(self, label: str, pictures: Sequence[tuple[Picture, Origin]]) -> Collection:
        """Write the pictures into a new folder; after a failure nothing of it is left."""
        self.check()
        try:
            for number in range(1, 10_000):
                target = self.root / f"{folder_name(label)}-{number:04}"
                if target.exists():
                    continue
                try:
                    return self._write(target, label, pictures)
                except FileExistsError:  # another fetch of the label was faster
                    continue
        except OSError as error:
            raise StorageError(f"the images cannot be stored: {error}") from error
        raise StorageError(f"there are too many collections of '{label}'")

    def _write(
        self, target: Path, label: str, pictures: Sequence[tuple[Picture, Origin]]
    ) -> Collection:
        with atomic_directory(target) as aside:
            stored = [_write_image(aside, picture, origin) for picture, origin in pictures]
            index = {
                "format": FORMAT,
                "label": label,
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "images": [asdict(image) for image in stored],
            }
            (aside / INDEX).write_text(json.dumps(index, indent=1, ensure_ascii=False))
        return Collection(target.name, tuple(stored))


def _write_image(folder: Path, picture: Picture, origin: Origin) -> StoredImage:
    content = picture.jpeg()
    checksum = hashlib.sha256(content).hexdigest()
    file = f"{checksum}.jpg"
    (folder / file).write_bytes(content)
    return StoredImage(file, checksum, *picture.size, picture.source_sha256, origin)
