# SPDX-License-Identifier: Apache-2.0
"""Pictures with boxes from several folders, and the part of each that is kept for reporting.

A folder is in the format of COCO (see `coco`) or in that of the Object Segmentation Database
(A. Richtsfeld et al., IROS 2012): `rgb/*.jpg` and `label/*.png`, where tens count the objects
from 2 and units their parts: 20 to 29 is the first object.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from newfound_core.errors import ConfigError, DataError
from newfound_training.detector.coco import Picture, read_pictures

_FIRST = 2  # tens of a label: 0 is nothing, 1 the table


def read_source(folder: Path) -> list[Picture]:
    """All pictures of a folder in either format, in a fixed order; raises DataError."""
    if (folder / "rgb").is_dir() and (folder / "label").is_dir():
        return read_osd(folder)
    return read_pictures(folder)


def read_osd(folder: Path) -> list[Picture]:
    """Scenes of the Object Segmentation Database by number, with their objects' outlines."""
    files = sorted((folder / "rgb").glob("*.jpg"), key=_number)
    if not files:
        raise DataError(f"{folder / 'rgb'} holds no .jpg")
    return [_scene(file, folder / "label" / f"{file.stem}.png") for file in files]


def reported(pictures: Sequence[Picture], every: int) -> list[Picture]:
    """The second picture of every so many: never trained on, nor chosen by. 0: none."""
    return [picture for place, picture in enumerate(pictures) if every and place % every == 1]


def for_training(pictures: Sequence[Picture], every: int) -> list[Picture]:
    """The pictures that are not `reported`."""
    return [p for place, p in enumerate(pictures) if not every or place % every != 1]


def read_sources(
    root: Path, sources: Sequence[str], report_every: Sequence[int]
) -> dict[str, list[Picture]]:
    """The training pictures of each of some folders below `root`."""
    if report_every and len(report_every) != len(sources):
        raise ConfigError(
            f"--report-every has one number for each source, got {len(report_every)} numbers for "
            f"{len(sources)} sources"
        )
    if any(every == 1 or every < 0 for every in report_every):
        raise ConfigError(f"--report-every is 0 (none) or at least 2, got {report_every}")
    numbers = report_every or (0,) * len(sources)
    return {
        name: for_training(read_source(root / name), every)
        for name, every in zip(sources, numbers, strict=True)
    }


def _scene(file: Path, label_file: Path) -> Picture:
    labels = cv2.imread(str(label_file), cv2.IMREAD_UNCHANGED)
    if labels is None or labels.ndim != 2:
        raise DataError(f"{label_file} is no image with the labels of {file.name}")
    tens = labels // 10
    masks = [tens == number for number in np.unique(tens[tens >= _FIRST])]
    boxes = [_box(mask) for mask in masks]
    return Picture(
        file,
        np.array(boxes, np.float32).reshape(-1, 4),
        ("object",) * len(boxes),
        tuple(_run_lengths(mask) for mask in masks),
    )


def _box(mask: np.ndarray) -> list[int]:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]


def _run_lengths(mask: np.ndarray) -> dict[str, list[int]]:
    """COCO's uncompressed run lengths of a mask, down its columns, beginning with zeros."""
    flat = np.concatenate([[False], mask.T.ravel(), [False]])
    changes = np.flatnonzero(flat[1:] != flat[:-1])
    borders = np.concatenate([[0], changes, [mask.size]])
    return {"size": list(mask.shape), "counts": np.diff(borders).tolist()}


def _number(file: Path) -> tuple[int, str]:
    digits = re.findall(r"\d+", file.stem)
    return int(digits[-1]) if digits else -1, file.stem
