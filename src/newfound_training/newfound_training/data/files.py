# SPDX-License-Identifier: Apache-2.0
"""Image files: which are images, and how one is decoded."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from newfound_core.errors import DataError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".webp"})


@dataclass(frozen=True)
class ImageFile:
    """An image in a file of its own."""

    path: Path
    root: Path

    @property
    def name(self) -> str:
        """Its path below the data folder."""
        return self.path.relative_to(self.root).as_posix()

    def read(self) -> np.ndarray:
        """Decodes it, upright as its camera was held; a DataError if it is damaged."""
        try:
            with Image.open(self.path) as image:
                return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
        except (
            OSError,  # not there, not an image, truncated
            UnidentifiedImageError,
            SyntaxError,  # what Pillow raises for a broken PNG
            ValueError,
            Image.DecompressionBombError,
        ) as error:
            raise DataError(f"{self.path} cannot be decoded: {error}") from error

    def fingerprint(self) -> str:
        """Name, size and time of the last change."""
        try:
            status = self.path.stat()
        except OSError:  # listed by the data set, but not there: found again when it is read
            return f"{self.name} missing"
        return f"{self.name} {status.st_size} {status.st_mtime_ns}"


def image_files(folder: Path, root: Path) -> Iterator[ImageFile]:
    """All image files below a folder; hidden ones are left out."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in SUFFIXES and not hidden and path.is_file():
            yield ImageFile(path, root)


def subfolders(folder: Path) -> list[Path]:
    """The folders in a folder, sorted by name, without hidden ones."""
    if not folder.is_dir():
        found = "is a file" if folder.exists() else "does not exist"
        raise DataError(f"{folder} {found}: expected a folder with images")
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
