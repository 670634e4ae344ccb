# SPDX-License-Identifier: Apache-2.0
"""Label images, uint8 [H, W]: a class at every pixel, 255 where it is not known.

Two data sets number their classes differently; they meet by names only.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np

from newfound_core.errors import ConfigError, DataError
from newfound_core.segmentation import BACKGROUND, UNLABELLED

MOST_CLASSES = 255  # of one label image, the background included


def check_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """The names of a network's classes: different, the background first."""
    labels = tuple(labels)
    if not labels or labels[0] != BACKGROUND:
        raise ConfigError(f"the first label must be {BACKGROUND!r}, got {list(labels[:1])}")
    if len(set(labels)) != len(labels):
        raise ConfigError(f"labels must be different, got {labels}")
    if len(labels) > MOST_CLASSES:
        raise ConfigError(
            f"{len(labels)} classes do not fit a mask of 8 bits: at most {MOST_CLASSES}"
        )
    return labels


def check_label_image(labels: np.ndarray, classes: int, where: str) -> np.ndarray:
    """The label image itself, if every pixel is one of the classes or unlabelled."""
    if labels.dtype != np.uint8 or labels.ndim != 2 or not labels.size:
        raise DataError(
            f"{where}: a label image must be uint8 [height, width], got {labels.dtype} "
            f"{list(labels.shape)}"
        )
    outside = labels[(labels >= classes) & (labels != UNLABELLED)]
    if outside.size:
        raise DataError(
            f"{where}: {outside.size} pixels are labelled {outside[0]} or more, but there are "
            f"{classes} classes, from 0 on, and {UNLABELLED} for unlabelled pixels"
        )
    return labels


def read_label_image(path: Path, classes: int) -> np.ndarray:
    """A PNG of class numbers, grey or with a palette, checked."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            if image.mode not in ("L", "P", "1"):
                raise DataError(
                    f"{path} has pixels of mode {image.mode}, but a label image has 8 bits a "
                    "pixel, grey or with a palette"
                )
            values = np.array(image)
    except (OSError, Image.DecompressionBombError, ValueError) as error:
        raise DataError(f"{path} cannot be read as a label image: {error}") from error
    return check_label_image(values.astype(np.uint8), classes, str(path))


def mapping(
    names: Sequence[str],
    labels: Sequence[str],
    *,
    ignored: Sequence[str] = (),
    others: int = 0,
) -> np.ndarray:
    """A table [256] from numbers of `names` to positions in `labels`.

    Names that no label has become `others`, the background; those of `ignored` become unlabelled.
    """
    table = np.full(256, UNLABELLED, np.uint8)
    positions: Mapping[str, int] = {label: number for number, label in enumerate(labels)}
    for number, name in enumerate(names):
        table[number] = UNLABELLED if name in ignored else positions.get(name, others)
    return table


def resized_labels(labels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A label image at (width, height), by nearest neighbours: classes cannot be mixed."""
    if labels.shape[::-1] == size:
        return labels
    return cv2.resize(labels, size, interpolation=cv2.INTER_NEAREST)
