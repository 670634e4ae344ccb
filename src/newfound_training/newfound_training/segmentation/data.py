# SPDX-License-Identifier: Apache-2.0
"""Images with a class at every pixel, in the layouts they are published in.

    tree     DATA/images/*.jpg, DATA/labels/*.png, DATA/classes.json (names by number), or the same
             in folders train and val (or test)
    nyu      the tree with the 40 classes of NYUv2, without classes.json
    camvid   the tree in folders train and val with the 11 classes of CamVid
    voc      DATA/JPEGImages, DATA/SegmentationClass, DATA/ImageSets/Segmentation/{train,val}.txt

Label images are PNGs of class numbers, 255 where the class is not known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import cv2
import numpy as np

from newfound_core.errors import ConfigError, DataError
from newfound_core.segmentation import BACKGROUND
from newfound_core.segmentation.label_image import mapping, read_label_image
from newfound_core.segmentation.samples import LabelledImage
from newfound_core.storage import read_json
from newfound_training.data.fingerprint import file_fingerprint

Layout = Literal["tree", "nyu", "camvid", "voc"]
NYU = (
    "wall", "floor", "cabinet", "bed", "chair", "sofa", "table", "door", "window", "bookshelf",
    "picture", "counter", "blinds", "desk", "shelves", "curtain", "dresser", "pillow", "mirror",
    "floor mat", "clothes", "ceiling", "books", "refrigerator", "television", "paper", "towel",
    "shower curtain", "box", "whiteboard", "person", "night stand", "toilet", "sink", "lamp",
    "bathtub", "bag", "other structure", "other furniture", "unlabelled",
)  # fmt: skip
CAMVID = (
    "sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian",
    "bicyclist", "unlabelled",
)  # fmt: skip
VOC = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair",
    "cow", "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa",
    "train", "tvmonitor",
)  # fmt: skip
IGNORED = ("unlabelled",)  # names of what is no class
_SUFFIXES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class LabelledFile:
    """An image file and its label image."""

    image: Path
    labels: Path

    def fingerprint(self) -> str:
        """What changes with either file."""
        return " ".join(f"{p.name} {file_fingerprint(p)}" for p in (self.image, self.labels))


@dataclass(frozen=True)
class LabelledSet:
    """Pictures to learn from and pictures to test on, with the names of their labels."""

    names: tuple[str, ...]  # by number in the label images
    training: tuple[LabelledFile, ...]
    test: tuple[LabelledFile, ...]

    def read(self, file: LabelledFile) -> LabelledImage:
        """Both images of a file, checked."""
        bgr = cv2.imread(str(file.image), cv2.IMREAD_COLOR)
        if bgr is None:
            raise DataError(f"{file.image} cannot be read as an image")
        labels = read_label_image(file.labels, len(self.names))
        found = LabelledImage(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), labels, str(file.labels))
        found.check(len(self.names))
        return found

    def table(self, labels: Sequence[str]) -> np.ndarray:
        """From numbers of the label images to positions in `labels`."""
        return mapping(self.names, labels, ignored=IGNORED)

    def check_classes(self, classes: Sequence[str]) -> None:
        """A ConfigError for a class that the data do not have."""
        known = [n for n in self.names if n not in (*IGNORED, BACKGROUND)]
        for name in classes:
            if name not in known:
                raise ConfigError(f"the data have no class {name!r}; they have {', '.join(known)}")


def open_labelled(root: Path, layout: Layout, block: int, every: int) -> LabelledSet:
    """The pictures of a folder.

    Without folders or lists that say otherwise, the first of every `every` blocks of `block`
    neighbouring pictures is tested on: neighbours show the same scene.
    """
    if not root.is_dir():
        raise DataError(f"{root} is not a folder")
    if layout == "voc":
        return _voc(root)
    names = _names(root) if layout == "tree" else {"nyu": NYU, "camvid": CAMVID}[layout]
    if (root / "train").is_dir():
        test = next((root / n for n in ("val", "test") if (root / n).is_dir()), None)
        if test is None:
            raise DataError(f"{root} has a folder train, but neither val nor test beside it")
        return LabelledSet(names, read_pairs(root / "train"), read_pairs(test))
    files = read_pairs(root)
    tested = [number // block % every == 0 for number in range(len(files))]
    training = tuple(f for f, t in zip(files, tested, strict=True) if not t)
    test_files = tuple(f for f, t in zip(files, tested, strict=True) if t)
    if not training:
        raise DataError(
            f"{root} has {len(files)} pictures, no more than one block of {block}, and the first "
            "block is tested on: give a smaller --block"
        )
    return LabelledSet(names, training, test_files)


def _names(root: Path) -> tuple[str, ...]:
    path = root / "classes.json"
    if not path.is_file() and (root / "train" / path.name).is_file():
        path = root / "train" / path.name  # as the simulator writes it
    names = read_json(path).get("classes") if path.is_file() else None
    if (
        not (isinstance(names, list) and names)
        or not all(isinstance(n, str) and n for n in names)
        or len(set(names)) != len(names)
    ):
        raise DataError(
            f'{path} must be {{"classes": [different names in the order of their numbers]}}'
        )
    return tuple(names)


def read_pairs(folder: Path) -> tuple[LabelledFile, ...]:
    """The images of a folder with their label images, in the order of their names."""
    files = sorted((folder / "images").glob("*"))
    images = [file for file in files if file.suffix.lower() in _SUFFIXES]
    if not images:
        raise DataError(
            f"{folder / 'images'} has none of {', '.join(_SUFFIXES)}: see docs/segmentation.md"
        )
    return tuple(_pair(image, folder / "labels" / f"{image.stem}.png") for image in images)


def _pair(image: Path, labels: Path) -> LabelledFile:
    for path in (image, labels):
        if not path.is_file():
            raise DataError(f"{path} is missing: every image has a label image")
    return LabelledFile(image, labels)


def _voc(root: Path) -> LabelledSet:
    parts = []
    for split in ("train", "val"):
        path = root / "ImageSets" / "Segmentation" / f"{split}.txt"
        if not path.is_file():
            raise DataError(f"{path} is missing: this is not the layout of Pascal VOC")
        stems = path.read_text(encoding="utf-8").split()
        if not stems:
            raise DataError(f"{path} names no picture")
        parts.append(
            tuple(
                _pair(root / "JPEGImages" / f"{s}.jpg", root / "SegmentationClass" / f"{s}.png")
                for s in stems
            )
        )
    return LabelledSet(VOC, *parts)
