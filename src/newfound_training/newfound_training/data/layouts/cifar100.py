# SPDX-License-Identifier: Apache-2.0
"""CIFAR-100, binary version: `cifar-100-binary/{train,test}.bin` and `fine_label_names.txt`.

A record is the coarse label, the fine label, and 32 x 32 pixels: all red, all green, all blue.
The class is the fine label, the domain the split. The Python version of the archive is a pickle,
and nothing is unpickled here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from newfound_core.errors import DataError
from newfound_training.data.files import subfolders
from newfound_training.data.images import Listed

SIDE = 32
RECORD = 2 + 3 * SIDE * SIDE
NAMES = "fine_label_names.txt"
_ADVICE = "get cifar-100-binary.tar.gz, the binary version, from the page of the data set"


@dataclass(frozen=True)
class CifarRecord:
    """One image inside of a .bin file."""

    path: Path
    index: int

    @property
    def name(self) -> str:
        """File and number."""
        return f"{self.path.name}#{self.index:05d}"

    def read(self) -> np.ndarray:
        """Its pixels, uint8 [32, 32, 3]."""
        content = np.fromfile(self.path, np.uint8, RECORD, offset=self.index * RECORD)
        if len(content) != RECORD:
            raise DataError(f"{self.path} ends within record {self.index}")
        return np.ascontiguousarray(content[2:].reshape(3, SIDE, SIDE).transpose(1, 2, 0))

    def fingerprint(self) -> str:
        """Name, and time of the last change of the file."""
        return f"{self.name} {self.path.stat().st_mtime_ns}"


def list_cifar100(root: Path) -> Iterator[Listed]:
    """All records of both splits."""
    subfolders(root)  # a clear error if there is no such folder
    below = root / "cifar-100-binary" if (root / "cifar-100-binary").is_dir() else root
    if not (below / "train.bin").is_file() and not (below / "test.bin").is_file():
        pickled = (root / "cifar-100-python").is_dir() or (below / "train").is_file()
        reason = (
            "is the Python version, a pickle, which is never opened"
            if pickled
            else ("has neither train.bin nor test.bin")
        )
        raise DataError(f"{root} {reason}: {_ADVICE}")
    names = _names(below / NAMES)
    for split in ("train", "test"):
        if (below / f"{split}.bin").is_file():
            yield from _list_split(below / f"{split}.bin", split, names)


def _names(path: Path) -> list[str]:
    if not path.is_file():
        raise DataError(f"{path} is missing: {_ADVICE}")
    return path.read_text().split()


def _list_split(path: Path, split: str, names: list[str]) -> Iterator[Listed]:
    size = path.stat().st_size
    if size == 0 or size % RECORD:
        raise DataError(f"{path} has {size} bytes, not a multiple of {RECORD}: it is cut off")
    labels = np.memmap(path, np.uint8, "r").reshape(-1, RECORD)[:, 1]
    for index, label in enumerate(labels):
        if label >= len(names):
            raise DataError(f"{path}: record {index} has label {label}, but {NAMES} has fewer")
        yield Listed(CifarRecord(path, index), names[label], split)
