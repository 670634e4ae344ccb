# SPDX-License-Identifier: Apache-2.0
"""Collections of fetched images: one folder per fetch, written atomically.

<root>/teapot-1f0c9a3b-0001/
    collection.json             label, time, and the origin of each image
    <sha256 of the file>.jpg
"""

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from newfound_core.errors import StorageError
from newfound_core.storage import atomic_directory, write_json
from newfound_web.pictures import Picture
from newfound_web.text import folder_name

INDEX = "collection.json"
FORMAT = 1


@dataclass(frozen=True)
class Origin:
    """Provenance of an image, as its source states it."""

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
    """The images that one fetch stored."""

    name: str
    images: tuple[StoredImage, ...]


class ImageFolder:
    """The folder of all collections, limited in size."""

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
        """Write the pictures into a new folder; a failure leaves nothing behind."""
        self.check()
        try:
            for number in range(1, 10_000):
                target = self.root / f"{folder_name(label)}-{number:04}"
                if target.exists():
                    continue
                try:
                    return self._write(target, label, pictures)
                except FileExistsError:  # taken by a concurrent fetch of the label
                    continue
        except OSError as error:
            raise StorageError(f"the images cannot be stored: {error}") from error
        raise StorageError(f"there are too many collections of '{label}'")

    def _write(
        self, target: Path, label: str, pictures: Sequence[tuple[Picture, Origin]]
    ) -> Collection:
        with atomic_directory(target) as folder:
            stored = [_write_image(folder, picture, origin) for picture, origin in pictures]
            index = {
                "format": FORMAT,
                "label": label,
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "images": [asdict(image) for image in stored],
            }
            write_json(folder / INDEX, index)
        return Collection(target.name, tuple(stored))


def _write_image(folder: Path, picture: Picture, origin: Origin) -> StoredImage:
    content = picture.jpeg()
    checksum = hashlib.sha256(content).hexdigest()
    file = f"{checksum}.jpg"
    (folder / file).write_bytes(content)
    return StoredImage(file, checksum, *picture.size, picture.source_sha256, origin)
