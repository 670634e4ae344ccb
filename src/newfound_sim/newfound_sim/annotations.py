# SPDX-License-Identifier: Apache-2.0
"""Ground truth of rendered frames: visible objects, and annotations in the format of COCO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from newfound_sim.clip import SeenObject
from newfound_sim.lights import Dome
from newfound_sim.objects import COARSE
from newfound_sim.rendering import Frame, Part, Scene, View


def seen_objects(
    frame: Frame, view: View, parts: Mapping[int, Sequence[Part]]
) -> tuple[SeenObject, ...]:
    """The visible objects of a frame; `parts` by instance number."""
    masks = frame.masks()
    found = []
    for instance, (left, top, right, bottom) in frame.boxes().items():
        whole = outline_pixels(parts[instance], view)
        visible = min(1.0, float(masks[instance].sum()) / max(whole, 1))
        box = (left, top, right - left, bottom - top)
        found.append(SeenObject(instance, frame.labels[instance], box, round(visible, 4)))
    return tuple(found)


def outline_pixels(parts: Sequence[Part], view: View) -> int:
    """Number of pixels the object would cover unoccluded and untruncated."""
    points = np.vstack([part.mesh.vertices @ p[:3, :3].T + p[:3, 3] for part in parts
                        for p in [part.pose]])  # fmt: skip
    pixels = view.project(points)
    inside = (pixels >= 0).all() and (pixels <= (view.width - 1, view.height - 1)).all()
    canvas = view if inside else widened(view)
    alone = Scene(parts, [Dome((1.0, 1.0, 1.0))])
    frame = alone.render(canvas, samples=1, bounces=1, denoise=False)
    return int((frame.instances > 0).sum())


def widened(view: View) -> View:
    """The same camera with a sensor three times as wide and high; pixels keep their size."""
    wide = np.degrees(2 * np.arctan(3 * np.tan(np.radians(view.fov_degrees) / 2)))
    return replace(view, width=3 * view.width, height=3 * view.height, fov_degrees=float(wide))


def run_lengths(mask: np.ndarray) -> dict[str, Any]:
    """Encode a mask as COCO's uncompressed RLE: runs of 0, 1, 0, … down the columns."""
    flat = mask.T.ravel()
    changes = np.flatnonzero(np.diff(flat.astype(np.int8))) + 1
    borders = np.concatenate([[0], changes, [flat.size]])
    counts = np.diff(borders).tolist()
    return {"size": list(mask.shape), "counts": [0, *counts] if flat[0] else counts}


def from_run_lengths(rle: dict[str, Any]) -> np.ndarray:
    """Decode COCO's uncompressed RLE to a mask."""
    values = np.arange(len(rle["counts"])) % 2 == 1
    height, width = rle["size"]
    return np.repeat(values, rle["counts"]).reshape(width, height).T


def coco_annotations(frame: Frame, least_pixels: int = 12) -> list[dict[str, Any]]:
    """One entry per object with at least `least_pixels` visible, with its label as text."""
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


def coco_dataset(classes: Sequence[str], pictures: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Make the COCO document of images, each {file_name, width, height, annotations}."""
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
