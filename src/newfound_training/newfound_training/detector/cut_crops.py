# SPDX-License-Identifier: Apache-2.0
"""`cut_crops`: from pictures with boxes to a tree of crops, cut out as the detector does.

Class means and thresholds hold for images of the kind they were learned from, so a model for the
detector is trained on what the detector will show it: squares around objects, with a piece of
table and maybe of a neighbour.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from tqdm import tqdm

from newfound_core.detection.boxes import areas
from newfound_core.detection.crops import crops_of
from newfound_core.errors import ConfigError, DataError
from newfound_core.storage import write_bytes
from newfound_training.detector.coco import Picture, PictureOptions, read_rgb
from newfound_training.running.command import Command, Run
from newfound_training.running.options import option

_JPEG = [cv2.IMWRITE_JPEG_QUALITY, 95]


@dataclass(frozen=True)
class CutOptions(PictureOptions):
    """Options of `cut_crops`."""

    seed: int = option(0, "of the random shifts")
    split: str = option("train", "first level of the tree that is written")
    classes: tuple[str, ...] = option((), "only these; none: all")
    margin: float = option(0.15, "around a box; crop_margin of the detector")
    jitter: float = option(0.06, "random shift of each side of a box, as proposers are not exact")
    least_side: int = option(16, "pixels; smaller objects are left out")
    size: int = option(128, "larger crops are reduced to so many pixels")

    def __post_init__(self) -> None:
        if not 0 <= self.jitter < 0.5 or not 0 <= self.margin <= 2:
            raise ConfigError("jitter must be in [0, 0.5) and margin in [0, 2]")
        if self.size < 16:
            raise ConfigError(f"size must be at least 16, got {self.size}")


def run_cut_crops(options: CutOptions, run: Run) -> dict[str, Any]:
    """Write `<out>/<split>/<class>/<folder>_<picture>_<object>.jpg`."""
    generator = np.random.default_rng([run.seed, 12])
    counts: Counter[str] = Counter()
    pictures = options.pictures()
    _refuse_paths(options.classes or sorted({n for p in pictures for n in p.labels}))
    for picture in tqdm(pictures, "pictures", disable=None):
        counts += _cut(picture, options, run.out / options.split, generator)
    if not counts:
        raise DataError(f"{options.data} shows no object of the wanted classes")
    return {"crops": dict(sorted(counts.items()))}


def _refuse_paths(labels: Iterable[str]) -> None:
    """A class is written into a folder of its name, which must lie where it is looked for."""
    for label in labels:
        if not label.strip() or label.startswith(".") or set(label) & set("/\\\0"):
            raise DataError(
                f"the class {label!r} cannot be the name of a folder: rename it in the "
                "annotations, or name others with --classes"
            )


def _cut(
    picture: Picture, options: CutOptions, out: Path, generator: np.random.Generator
) -> Counter[str]:
    pixels = read_rgb(picture)
    boxes = jittered(picture.boxes, options.jitter, generator)
    counts: Counter[str] = Counter()
    crops = crops_of(pixels, boxes, options.margin)
    for number, (label, box, crop) in enumerate(zip(picture.labels, boxes, crops, strict=True)):
        if options.classes and label not in options.classes:
            continue
        if (box[2:] - box[:2]).max() < options.least_side or areas(box[None])[0] == 0:
            continue
        name = f"{picture.path.parents[1].name}_{picture.path.stem}_{number}.jpg"
        write_bytes(out / label / name, _encoded(crop, options.size))
        counts[label] += 1
    return counts


def jittered(boxes: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """Boxes whose sides moved in or out by up to a share of their length."""
    sides = np.tile(boxes[:, 2:] - boxes[:, :2], 2)
    return boxes + sides * generator.uniform(-share, share, boxes.shape).astype(np.float32)


def _encoded(crop: np.ndarray, size: int) -> bytes:
    if max(crop.shape[:2]) > size:
        crop = cv2.resize(crop, (size, size), interpolation=cv2.INTER_AREA)
    return cv2.imencode(".jpg", cv2.cvtColor(crop, cv2.COLOR_RGB2BGR), _JPEG)[1].tobytes()


COMMAND = Command(
    "cut-crops",
    "Cuts objects out of pictures with boxes, as the open-world detector does.",
    CutOptions,
    run_cut_crops,
    {"crops": "how many of each class"},
)
