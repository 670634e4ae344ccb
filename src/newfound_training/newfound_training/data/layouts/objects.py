# SPDX-License-Identifier: Apache-2.0
"""Data sets of objects as published: CIFAR-100, CORe50, KTH Handtool, RGB-D Object.

CIFAR-100, binary version: `cifar-100-binary/{train,test}.bin` and `fine_label_names.txt`. A record
is the coarse label, the fine label, and 32 x 32 pixels: all red, all green, all blue. The class is
the fine label, the domain the split. The Python version of the archive is a pickle, and nothing is
unpickled here.

CORe50: `core50_128x128/s<session>/o<object>/C_<session>_<object>_<frame>.png`. Fifty objects of
ten categories, five of each in order, in eleven sessions, which are the domains. The class is the
object (`o07`) and the group its video in a session; or, as in the thesis, the class is the
category and the group the object, so that all its videos stay together.

KTH Handtool: nine hand tools under 3 lights, 2 cameras and 2 backgrounds. The levels of the tree
are recognised by their names, in any order and with any separators, for example
`artificial/kinect/white/hammer1/0001.jpg` or `Artificial_Kinect_White/hammer1/…`. The domain is
`<light>-<camera>-<background>`, the class the tool's folder (`hammer1`).

RGB-D Object: `<category>/<category>_<instance>/<…>_<video>_<frame>_crop.png`, the colour crops of
all instances; depth and masks are left out. The class is the category, the group the instance, so
that an evaluation can leave instances out. The data has one domain.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from newfound_core.errors import DataError
from newfound_training.data.fingerprint import file_fingerprint
from newfound_training.data.images import ImageFile, Listed, image_files, subfolders

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
        """Name, and what the file is known by."""
        return f"{self.name} {file_fingerprint(self.path)}"


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


CATEGORIES = (
    "plug_adapter",
    "mobile_phone",
    "scissor",
    "light_bulb",
    "can",
    "glass",
    "ball",
    "marker",
    "cup",
    "remote_control",
)
PACKINGS = ("core50_128x128", "core50_350x350")
_SESSION, _OBJECT = re.compile(r"s(\d{1,2})$"), re.compile(r"o(\d{1,2})$")


def list_core50(root: Path) -> Iterator[Listed]:
    """All frames; session and object are numbered with two digits, so that they sort."""
    below = next((root / name for name in PACKINGS if (root / name).is_dir()), root)
    sessions = [(folder, m) for folder in subfolders(below) if (m := _SESSION.match(folder.name))]
    if not sessions:
        raise DataError(f"{below} has no sessions s1 to s11: expected {PACKINGS[0]}/s1/o1/*.png")
    for folder, session in sessions:
        for thing in subfolders(folder):
            match = _OBJECT.match(thing.name)
            if match is None or not 1 <= int(match[1]) <= 50:
                raise DataError(f"{thing} is not an object o1 to o50")
            domain = f"s{int(session[1]):02d}"
            label = f"o{int(match[1]):02d}"
            for file in image_files(thing, root):
                yield Listed(file, label, domain, f"{domain}/{label}")


def list_core50_categories(root: Path) -> Iterator[Listed]:
    """The same frames by category."""
    for frame in list_core50(root):
        yield frame._replace(label=category(frame.label), group=frame.label)


def category(label: str) -> str:
    """The category of an object: `o07` is a mobile phone."""
    return CATEGORIES[(int(label[1:]) - 1) // 5]


CONDITIONS = {
    "light": ("artificial", "cloudy", "directed"),
    "camera": ("kinect", "webcam"),
    "background": ("white", "brown"),
}
_TOOL = re.compile(r"(hammer|plier|screwdriver)s?[ _-]*(\d+)", re.IGNORECASE)


def list_kth_handtool(root: Path) -> Iterator[Listed]:
    """Every image whose folders name a light, a camera, a background and a tool."""
    subfolders(root)  # a clear error if there is no such folder
    for file in image_files(root, root):
        folders = "/".join(file.path.relative_to(root).parts[:-1])
        yield Listed(file, _tool(folders, file.path), _domain(folders, file.path))


def _domain(folders: str, path: Path) -> str:
    found = []
    for kind, names in CONDITIONS.items():
        here = [name for name in names if name in folders.lower()]
        if len(here) != 1:
            raise DataError(
                f"the folders of {path} name {len(here)} conditions of {kind}; expected exactly "
                f"one of {', '.join(names)}, as in artificial/kinect/white/hammer1/"
            )
        found += here
    return "-".join(found)


def _tool(folders: str, path: Path) -> str:
    match = _TOOL.search(folders)
    if match is None:
        raise DataError(f"the folders of {path} name no tool such as hammer1 or screwdriver3")
    return f"{match[1].lower()}{int(match[2])}"


DOMAIN = "rgbd_object"
_INSTANCE = re.compile(r"(\w+)_(\d+)$")


def list_rgbd_object(root: Path) -> Iterator[Listed]:
    """The colour crops, `*_crop.png`."""
    below = root / "rgbd-dataset" if (root / "rgbd-dataset").is_dir() else root
    found = 0
    for folder in subfolders(below):
        for instance in subfolders(folder):
            match = _INSTANCE.match(instance.name)
            if match is None or match[1] != folder.name:
                raise DataError(
                    f"{instance} is not an instance of {folder.name}: expected "
                    f"{folder.name}/{folder.name}_<number>/"
                )
            for path in sorted(instance.glob("*_crop.png")):
                found += 1
                yield Listed(ImageFile(path, root), folder.name, DOMAIN, instance.name)
    if not found:
        raise DataError(f"{below} holds no *_crop.png: expected <category>/<category>_<instance>/")
