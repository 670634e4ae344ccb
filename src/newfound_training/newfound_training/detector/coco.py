# SPDX-License-Identifier: Apache-2.0
"""Pictures with boxes, from annotations in the JSON format of COCO.

DATA/annotations.json (or instances.json) and DATA/images/…, or the same in each folder below
DATA, or any one file of annotations and any folder of images, as COCO itself is published:
DATA/annotations/instances_train2017.json and DATA/train2017/…
"""

import json
import os
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from tqdm import tqdm

from newfound_core.errors import DataError
from newfound_training.data.images import ImageFile
from newfound_training.data.pixels import report_corrupt
from newfound_training.running.options import OutputOptions, option

FILE, OTHER_FILE, IMAGES = "annotations.json", "instances.json", "images"


@dataclass(frozen=True)
class Picture:
    """One picture and the objects in it."""

    path: Path
    boxes: np.ndarray  # float32 [N, 4]: left, top, right, bottom in pixels
    labels: tuple[str, ...]  # of the boxes
    outlines: tuple[Any, ...] = ()  # of the boxes: COCO's run lengths or polygons, None: unknown

    def mask(self, index: int, shape: tuple[int, ...]) -> np.ndarray | None:
        """The pixels of an object, bool [H, W]; None if its outline is not known."""
        outline = self.outlines[index] if self.outlines else None
        return None if outline is None else decoded(outline, shape)


def read_pictures(data: Path, annotations: str = "", images: str = "") -> list[Picture]:
    """All pictures below a folder, in a fixed order; raises DataError.

    `annotations` and `images` are a file and a folder in it, if they are not where they are
    looked for.
    """
    files = [data / annotations] if annotations else _annotation_files(data)
    folder = data / images if images else None
    return [picture for file in files for picture in _read(file, folder)]


def read_rgb(picture: Picture) -> np.ndarray:
    """The pixels of a picture."""
    pixels = cv2.imread(str(picture.path), cv2.IMREAD_COLOR)
    if pixels is None:
        raise DataError(f"{picture.path} cannot be decoded: remove it, or render it again")
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)


def read_depth(picture: Picture) -> np.ndarray:
    """The depth of a picture in metres, from `depth/` beside `images/`."""
    path = picture.path.parents[1] / "depth" / f"{picture.path.stem}.png"
    millimetres = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if millimetres is None or millimetres.dtype != np.uint16 or millimetres.ndim != 2:
        raise DataError(f"{path} is no 16-bit PNG with the depth of {picture.path.name}")
    return millimetres.astype(np.float32) * 1e-3


def _annotation_files(data: Path) -> list[Path]:
    here = [data / name for name in (FILE, OTHER_FILE) if (data / name).is_file()]
    files = here[:1] or sorted(data.glob(f"*/{FILE}"))
    if not files:
        raise DataError(
            f"{data} has no {FILE}, nor has a folder in it: give the folder that `python -m "
            "newfound_sim generate detection` wrote, or with data of COCO name --annotations and "
            "--images"
        )
    return files


def without_classes(pictures: Sequence[Picture], labels: Collection[str]) -> list[Picture]:
    """Pictures that show none of some classes.

    To hide the boxes alone would teach a network that such things are background.
    """
    return [picture for picture in pictures if not set(picture.labels) & set(labels)]


def sound_pictures(
    pictures: Sequence[Picture], root: Path, *, strict: bool
) -> tuple[list[Picture], list[str]]:
    """The pictures that can be decoded, each tried once, and the files of the others.

    With `strict` another one is a DataError.
    """
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        tried = pool.map(_is_corrupt, pictures)
        found = list(tqdm(tried, "checking", len(pictures), disable=None))
    corrupt = [str(p.path) for p, bad in zip(pictures, found, strict=True) if bad]
    report_corrupt(corrupt, len(pictures), root, strict=strict)
    return [p for p, bad in zip(pictures, found, strict=True) if not bad], corrupt


def _is_corrupt(picture: Picture) -> bool:
    try:
        _file(picture).read()  # OpenCV would fill the missing part of a file with grey
    except DataError:
        return True
    return False


def fingerprint(picture: Picture) -> str:
    """Key that changes when a picture, its boxes or their labels do."""
    known = f"{picture.boxes.tolist()} {picture.labels}"
    return f"{picture.path} {_file(picture).fingerprint()} {known}"


def _file(picture: Picture) -> ImageFile:
    return ImageFile(picture.path, picture.path.parent)


def _read(file: Path, folder: Path | None) -> list[Picture]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        names = {c["id"]: str(c["name"]) for c in document["categories"]}
        found: dict[int, list[dict[str, Any]]] = {i["id"]: [] for i in document["images"]}
        for entry in document["annotations"]:
            if not entry.get("iscrowd"):
                found[entry["image_id"]].append(entry)
        return [
            _picture(_find(image, file, folder), found[image["id"]], names)
            for image in document["images"]
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file} is not an annotation file of COCO: {error!r}") from error


def _find(image: dict[str, Any], file: Path, folder: Path | None) -> Path:
    """The file of a picture: in the folder given, or beside the annotations."""
    name = Path(image["file_name"])
    if name.is_absolute() or ".." in name.parts:
        raise DataError(f"{file} refers to {str(name)!r}, outside of its folder")
    folders = [folder] if folder else [file.parent, file.parent / IMAGES]
    path = next((f / name for f in folders if (f / name).is_file()), None)
    if path is None:
        looked = " or ".join(map(str, folders))
        raise DataError(f"{file} refers to {str(name)!r}, which is not there: not in {looked}")
    return path


def _picture(path: Path, entries: list[dict[str, Any]], names: dict[int, str]) -> Picture:
    corners = np.array([entry["bbox"] for entry in entries], np.float32).reshape(-1, 4)
    corners[:, 2:] += corners[:, :2]
    labels = tuple(names[entry["category_id"]] for entry in entries)
    return Picture(path, corners, labels, tuple(e.get("segmentation") or None for e in entries))


def decoded(outline: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A mask, bool [H, W], from COCO's uncompressed run lengths or its polygons."""
    if isinstance(outline, dict):
        height, width = outline["size"]
        values = np.arange(len(outline["counts"])) % 2 == 1
        return np.repeat(values, outline["counts"]).reshape(width, height).T
    canvas = np.zeros(shape, np.uint8)
    corners = [np.rint(np.reshape(part, (-1, 2))).astype(np.int32) for part in outline]
    cv2.fillPoly(canvas, corners, (1,))
    return canvas.astype(bool)


@dataclass(frozen=True)
class PictureOptions(OutputOptions):
    """Location of pictures and their boxes."""

    data: str = option("", "folder with annotations in the format of COCO", required=True)
    annotations: str = option(
        "", "file in it, as annotations/instances_train2017.json; none: every annotations.json"
    )
    images: str = option("", "folder in it, as train2017; none: beside the annotations, images/")

    def pictures(self) -> list[Picture]:
        """All of them, in a fixed order."""
        return read_pictures(Path(self.data), self.annotations, self.images)
