# SPDX-License-Identifier: Apache-2.0
"""Labelled images on disk, in a fixed order: files, classes, domains."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from newfound_core.errors import DataError
from newfound_training.data.fingerprint import file_fingerprint

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
        """Decode it, upright as its camera was held; a DataError if it is damaged."""
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
        """Name, size and content."""
        try:
            return f"{self.name} {file_fingerprint(self.path)}"
        except OSError:  # listed by the data set, but not there: found again when it is read
            return f"{self.name} missing"


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


class ImageSource(Protocol):
    """One image, in a file of its own or inside of another."""

    @property
    def name(self) -> str:
        """Name by which a person finds it."""

    def read(self) -> np.ndarray:
        """Its pixels, uint8 [H, W, 3] RGB; a DataError if it is damaged."""

    def fingerprint(self) -> str:
        """Key that changes when the image does; costs no decoding."""


class Listed(NamedTuple):
    """An image as a layout found it."""

    source: ImageSource
    label: str
    domain: str  # or split: whatever the first level of the tree means
    group: str = ""  # object instance or sequence: images that `split` must not separate


@dataclass(frozen=True)
class ImageSet:
    """Images with class and domain, always in the same order on every machine."""

    root: Path
    sources: tuple[ImageSource, ...]
    labels: np.ndarray  # [N] index into class_names
    domains: np.ndarray  # [N] index into domain_names
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    groups: tuple[str, ...] = field(default=())  # [N]

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def of(cls, root: Path, listed: Iterable[Listed]) -> "ImageSet":
        """Sorted by domain, class and name, so that no file system's order matters."""
        found = sorted(listed, key=lambda i: (i.domain, i.label, i.source.name))
        if not found:
            raise DataError(f"{root} holds no images")
        class_names = tuple(sorted({i.label for i in found}))
        domain_names = tuple(sorted({i.domain for i in found}))
        refuse_names_that_differ_in_case(class_names, f"the classes in {root}")
        class_index = {name: index for index, name in enumerate(class_names)}
        domain_index = {name: index for index, name in enumerate(domain_names)}
        return cls(
            root,
            tuple(i.source for i in found),
            np.array([class_index[i.label] for i in found]),
            np.array([domain_index[i.domain] for i in found]),
            class_names,
            domain_names,
            tuple(i.group for i in found),
        )

    def in_domain(self, name: str) -> "ImageSet":
        """The images of one domain; class indices stay those of the whole set."""
        return self.select(np.flatnonzero(self.domains == self.domain_index(name)))

    def domain_index(self, name: str) -> int:
        """The index of a domain's name."""
        if name not in self.domain_names:
            raise DataError(
                f"{self.root} has no domain {name!r}; it has {', '.join(self.domain_names)}"
            )
        return self.domain_names.index(name)

    def select(self, indices: np.ndarray | Sequence[int]) -> "ImageSet":
        """Some of the images, in the order given."""
        indices = np.asarray(indices, dtype=np.int64)
        return ImageSet(
            self.root,
            tuple(self.sources[i] for i in indices),
            self.labels[indices],
            self.domains[indices],
            self.class_names,
            self.domain_names,
            tuple(self.groups[i] for i in indices),
        )

    def require_every_class(self, domains: Iterable[str]) -> None:
        """A DataError if a class has no image in one of the domains."""
        for name in domains:
            present = np.unique(self.labels[self.domains == self.domain_index(name)])
            missing = [c for i, c in enumerate(self.class_names) if i not in present]
            if missing:
                raise DataError(
                    f"domain {name!r} of {self.root} has no images of {', '.join(missing)}, which "
                    "other domains have: add some, or remove the classes everywhere"
                )


def refuse_names_that_differ_in_case(names: Iterable[str], where: str) -> None:
    """A DataError for names that a person, or another file system, takes for one."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise DataError(
                f"{where} {other!r} and {name!r} differ only in case: rename or merge them"
            )
