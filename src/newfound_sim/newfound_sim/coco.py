# SPDX-License-Identifier: Apache-2.0
"""Detection truth in the JSON format of COCO."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from newfound_sim.objects import COARSE
from newfound_sim.rendering import Frame


def run_lengths(mask: np.ndarray) -> dict[str, Any]:
    """A mask as COCO's uncompressed RLE: runs of 0, 1, 0, … down the columns."""
    flat = mask.T.ravel()
    changes = np.flatnonzero(np.diff(flat.astype(np.int8))) + 1
    borders = np.concatenate([[0], changes, [flat.size]])
    counts = np.diff(borders).tolist()
    return {"size": list(mask.shape), "counts": [0, *counts] if flat[0] else counts}


def from_run_lengths(rle: dict[str, Any]) -> np.ndarray:
    """The mask of an uncompressed RLE."""
    values = np.arange(len(rle["counts"])) % 2 == 1
    height, width = rle["size"]
    return np.repeat(values, rle["counts"]).reshape(width, height).T


def annotations(frame: Frame, least_pixels: int = 12) -> list[dict[str, Any]]:
    """One entry for each object seen with at least a few pixels, with its label as text."""
    found = []
    masks = frame.masks()
    for instance, (left, top, right, bottom) in frame.boxes().items():
        mask = masks[instance]
        area = int(mask.sum())
        if area >= least_pixels:
            box = [left, top, right - left, bottom - top]
            entry = {"label": frame.labels[instance], "bbox": box, "area": area, "iscrowd": 0}
            found.append({**entry, "segmentation": run_lengths(mask)})
    return found


def dataset(classes: Sequence[str], pictures: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The COCO document of pictures, each {file_name, width, height, annotations}."""
    number = {label: i for i, label in enumerate(classes, start=1)}
    images: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    for image_id, picture in enumerate(pictures, start=1):
        size = {key: picture[key] for key in ("file_name", "width", "height")}
        images.append({"id": image_id, **size})
        for entry in picture["annotations"]:
            known = {key: value for key, value in entry.items() if key != "label"}
            ids = {"id": len(entries) + 1, "image_id": image_id}
            entries.append({**ids, "category_id": number[entry["label"]], **known})
    categories = [
        {"id": i, "name": label, "supercategory": COARSE[label]} for label, i in number.items()
    ]
    return {"images": images, "annotations": entries, "categories": categories}
