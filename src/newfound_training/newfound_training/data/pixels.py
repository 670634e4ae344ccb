# SPDX-License-Identifier: Apache-2.0
"""Decoded images: all of a set as one uint8 array, kept in a cache on disk.

The cache lies outside of the data folder, in `$NEWFOUND_CACHE/pixels` (`~/.cache/newfound` if
that is not set), under a key made of names, sizes and times of all images. It appears complete
or not at all, so a crash or two commands at once do no harm. Where it does not fit, images are
decoded when they are needed.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from newfound_core.errors import DataError
from newfound_core.preprocessing import Preprocessing, Resize
from newfound_core.storage import atomic_directory
from newfound_training.data.images import ImageSet, ImageSource

FORMAT = 1
DEFAULT_LIMIT_GB = 20.0
_PIXELS, _REPORT = "pixels.npy", "report.json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pixels:
    """The images of a set that could be decoded, at one size."""

    images: ImageSet  # without the corrupt ones
    size: int
    corrupt: tuple[str, ...]  # names of the images left out
    array: np.ndarray | None  # [M, size, size, 3], or None: decoded when needed
    resize: Preprocessing
    rows: np.ndarray  # [N] where each image is in the array, which is never copied

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> np.ndarray:
        """One image, uint8 [size, size, 3] RGB."""
        if self.array is not None:
            return self.array[self.rows[index]]
        return self.resize.resized(self.images.sources[index].read())

    def select(self, indices: np.ndarray | Sequence[int]) -> "Pixels":
        """Some of the images; all pixels stay where they are."""
        indices = np.asarray(indices, dtype=np.int64)
        return replace(self, images=self.images.select(indices), rows=self.rows[indices])

    def in_domain(self, name: str) -> "Pixels":
        """The images of one domain."""
        index = self.images.domain_index(name)
        return self.select(np.flatnonzero(self.images.domains == index))


def load_pixels(
    images: ImageSet,
    size: int,
    *,
    strict: bool = False,
    resize: Resize = "squash",
    limit_gb: float = DEFAULT_LIMIT_GB,
    cache: Path | None = None,
) -> Pixels:
    """Decode all images once, or find them decoded. Corrupt ones are left out and reported.

    With `strict` a corrupt image is a DataError. `resize` must be that of the model's
    preprocessing, which has nothing left to do then.
    """
    prepare = Preprocessing(size, resize)
    folder = (cache or cache_root()) / _key(images, prepare)
    fits = _fits(len(images), size, limit_gb, folder.parent)
    wanted = folder if fits else folder.with_name(f"{folder.name}-checked")
    if not (wanted / _REPORT).is_file():
        _fill(wanted, images, prepare, keep=fits)
    corrupt = tuple(json.loads((wanted / _REPORT).read_text())["corrupt"])
    report_corrupt(corrupt, len(images), images.root, strict=strict)
    bad = set(corrupt)
    kept = [i for i, source in enumerate(images.sources) if source.name not in bad]
    if not kept:
        raise DataError(f"none of the {len(images)} images in {images.root} can be decoded")
    array = np.load(wanted / _PIXELS, mmap_mode="r", allow_pickle=False) if fits else None
    return Pixels(images.select(kept), size, corrupt, array, prepare, np.arange(len(kept)))


def cache_root() -> Path:
    """Folder of decoded images; may be deleted at any time when nothing runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("NEWFOUND_CACHE") or Path(base) / "newfound") / "pixels"


def _key(images: ImageSet, prepare: Preprocessing) -> str:
    how = f"{FORMAT} {prepare.size}" + f" {prepare.resize}" * (prepare.resize != "squash")
    digest = hashlib.sha256(f"{how} {images.root.resolve()}\n".encode())
    for source in images.sources:
        digest.update(f"{source.fingerprint()}\n".encode())
    return digest.hexdigest()[:24]


def _fits(count: int, size: int, limit_gb: float, folder: Path) -> bool:
    needed = count * size * size * 3
    while not folder.exists():
        folder = folder.parent
    return needed <= limit_gb * 2**30 and needed <= 0.8 * shutil.disk_usage(folder).free


def _fill(folder: Path, images: ImageSet, prepare: Preprocessing, *, keep: bool) -> None:
    """Decode everything; if another process was faster, its result is as good."""
    try:
        with atomic_directory(folder) as aside:
            corrupt = _decode(aside / _PIXELS if keep else None, images, prepare)
            (aside / _REPORT).write_text(json.dumps({"corrupt": corrupt}, ensure_ascii=False))
    except FileExistsError:
        _log.info("another process has decoded the images meanwhile")


def _decode(path: Path | None, images: ImageSet, prepare: Preprocessing) -> list[str]:
    """Write good images one after the other; return the names of the others."""

    def prepared(source: ImageSource) -> np.ndarray | None:
        try:
            return prepare.resized(source.read())
        except DataError:
            return None

    corrupt, good = [], 0
    shape = (len(images), prepare.size, prepare.size, 3)
    array = None
    if path is not None:
        array = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        results = pool.map(prepared, images.sources)
        for source, pixels in tqdm(
            zip(images.sources, results, strict=True), "decoding", len(images), disable=None
        ):
            if pixels is None:
                corrupt.append(source.name)
            elif array is not None:
                array[good] = pixels
                good += 1
    if array is not None:
        array.flush()
    return corrupt


def report_corrupt(corrupt: Sequence[str], total: int, root: Path, *, strict: bool) -> None:
    """List corrupt images in the log, or with `strict` in a DataError."""
    if not corrupt:
        return
    shown = ", ".join(corrupt[:10]) + (f" and {len(corrupt) - 10} more" * (len(corrupt) > 10))
    message = f"{len(corrupt)} of {total} images in {root} are corrupt: {shown}"
    if strict:
        raise DataError(f"{message}. Repair or remove them, or leave --strict out to skip them")
    _log.warning("%s. They are left out", message)
