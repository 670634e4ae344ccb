# SPDX-License-Identifier: Apache-2.0
"""Local providers: the built-in ImageNet classifier, and a folder of labelled images.

<library>/teapot/*.jpg      the folder's name is the label; .jpg, .jpeg, .png and .webp
"""

import asyncio
import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from newfound_web.cache import DiskCache
from newfound_web.errors import PictureError, ProviderError, SettingsError
from newfound_web.image_folder import Origin
from newfound_web.pictures import Picture, PictureLimits, open_picture
from newfound_web.providers.base import Candidate, Offer
from newfound_web.text import label_problem, same_name

Features = Callable[[np.ndarray], np.ndarray]
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp"})
Classify = Callable[[np.ndarray, int], Sequence[tuple[str, float]]]


class Library:
    """A folder of labelled images. Symbolic links that lead out of it are not followed."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise SettingsError(f"library_folder: there is no folder {root}")
        self._root = root.resolve()

    def labels(self) -> list[str]:
        """Names of the label folders."""
        folders = sorted(f.name for f in self._root.iterdir() if f.is_dir())
        return [n for n in folders if not n.startswith(".") and label_problem(n) is None]

    def files(self, label: str) -> Iterator[Path]:
        """The images of a label; case, `_` and `-` do not matter."""
        wanted = same_name(label)
        for name in self.labels():
            if same_name(name) == wanted:
                for file in sorted((self._root / name).iterdir()):
                    if file.suffix.lower() in SUFFIXES and self._is_inside(file):
                        yield file

    def _is_inside(self, file: Path) -> bool:
        return file.is_file() and file.resolve().is_relative_to(self._root)


class LibraryImages:
    """Image provider: the images of a label's folder."""

    name = "library"

    def __init__(self, library: Library) -> None:
        self._library = library

    async def offers(self, label: str, count: int) -> Sequence[Offer]:
        """The files, sorted by name."""
        try:
            files = await asyncio.to_thread(lambda: list(self._library.files(label)))
        except OSError as error:
            raise ProviderError(f"the library cannot be read: {error}") from error
        return [
            Offer(Origin(self.name), functools.partial(asyncio.to_thread, _read, file))
            for file in files[:count]
        ]


class LibraryLabels:
    """Label provider: nearest neighbours of the crop in the library."""

    name = "library"

    def __init__(
        self, library: Library, features: Features, cache: DiskCache, limits: PictureLimits
    ) -> None:
        self._features = features
        self._cache = cache
        self._limits = limits
        self.unreadable = 0
        entries = [(label, v) for label in library.labels() for v in self._vectors(library, label)]
        if not entries:
            raise SettingsError("library_folder holds no image: expected <label>/<image>.jpg")
        self._labels = np.array([label for label, _ in entries])
        self._index = np.stack([vector for _, vector in entries])

    async def candidates(self, crop: Picture, count: int) -> Sequence[Candidate]:
        """Labels by the cosine similarity of their nearest image to the crop."""
        vector = await asyncio.to_thread(self._unit_features, crop.rgb)
        cosine = self._index @ vector
        best = {label: float(cosine[self._labels == label].max()) for label in set(self._labels)}
        ranked = sorted(best.items(), key=lambda item: -item[1])[:count]
        return [Candidate(str(label), min(max(c, 0.0), 1.0), self.name) for label, c in ranked]

    def _vectors(self, library: Library, label: str) -> Iterator[np.ndarray]:
        for file in library.files(label):
            try:
                yield self._vector(_read(file))
            except (OSError, PictureError):
                self.unreadable += 1

    def _vector(self, data: bytes) -> np.ndarray:
        """The features of a file, cached by its content."""
        key = hashlib.sha256(data).hexdigest()
        stored = self._cache.get("library features", key)
        if stored is not None:
            return np.frombuffer(stored, np.float32)
        vector = self._unit_features(open_picture(data, self._limits).rgb)
        self._cache.put("library features", key, vector.tobytes())
        return vector

    def _unit_features(self, rgb: np.ndarray) -> np.ndarray:
        vector = np.asarray(self._features(rgb), np.float32)
        return vector / max(float(np.linalg.norm(vector)), 1e-12)


def _read(file: Path) -> bytes:
    return file.read_bytes()


class ImageNet:
    """Label provider: the most probable ImageNet classes."""

    name = "imagenet"

    def __init__(self, classify: Classify) -> None:
        self._classify = classify

    async def candidates(self, crop: Picture, count: int) -> Sequence[Candidate]:
        """The most probable classes."""
        names = await asyncio.to_thread(self._classify, crop.rgb, count)
        return [Candidate(label, probability, self.name) for label, probability in names]
