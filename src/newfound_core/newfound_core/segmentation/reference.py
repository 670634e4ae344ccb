# SPDX-License-Identifier: Apache-2.0
"""Labelled frames beside a segmentation checkpoint, on which known classes are checked.

    reference/images/000.jpg       reference/labels/000.png

Labels are positions in the checkpoint's labels, 255 where a pixel's class is not known. They are
never learned from; on half of the frames the old network's own answers are (`class_learning`).
"""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from newfound_core.errors import DataError
from newfound_core.segmentation import UNLABELLED
from newfound_core.segmentation.label_image import read_label_image
from newfound_core.segmentation.samples import LabelledImage

REFERENCE_NAME = "reference"
_JPEG_QUALITY = 95


def read_reference(checkpoint: Path, classes: int) -> list[LabelledImage]:
    """The frames of a checkpoint, none if it has no such folder; raises a DataError."""
    return read_frames(checkpoint / REFERENCE_NAME, classes)


def write_reference(checkpoint: Path, frames: Sequence[LabelledImage]) -> None:
    """Write frames beside a checkpoint that has none yet."""
    write_frames(checkpoint / REFERENCE_NAME, frames)


def read_frames(folder: Path, classes: int) -> list[LabelledImage]:
    """The labelled frames of a folder, none if it does not exist; raises a DataError."""
    found = []
    for path in sorted((folder / "images").glob("*.jpg")):
        bgr = cv2.imread(str(path), cv2.IMREAD_COLOR)
        if bgr is None:
            raise DataError(f"{path} cannot be read as an image")
        labels = read_label_image(folder / "labels" / f"{path.stem}.png", classes)
        frame = LabelledImage(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), labels, str(path))
        frame.check(classes)
        found.append(frame)
    return found


def write_frames(folder: Path, frames: Sequence[LabelledImage]) -> None:
    """Write labelled frames to a folder that has none yet."""
    for name in ("images", "labels"):
        (folder / name).mkdir(parents=True)
    for number, frame in enumerate(frames):
        jpeg, png = encoded(frame)
        (folder / "images" / f"{number:03d}.jpg").write_bytes(jpeg)
        (folder / "labels" / f"{number:03d}.png").write_bytes(png)


def encoded(frame: LabelledImage) -> tuple[bytes, bytes]:
    """A frame as files: its image as JPEG, its labels as PNG."""
    bgr = cv2.cvtColor(np.ascontiguousarray(frame.rgb), cv2.COLOR_RGB2BGR)
    jpeg = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])[1]
    return jpeg.tobytes(), cv2.imencode(".png", frame.labels)[1].tobytes()


def counts(frames: Sequence[LabelledImage], labels: Sequence[str]) -> dict[str, int]:
    """How many frames show each class."""
    shown = [np.unique(frame.labels) for frame in frames]
    return {label: sum(number in found for found in shown) for number, label in enumerate(labels)}


def without_class(frames: Sequence[LabelledImage], index: int) -> list[LabelledImage]:
    """The frames for a network without a class, whose pixels are of no known class then."""
    table = np.arange(256, dtype=np.uint8)
    table[index + 1 : UNLABELLED] -= 1
    table[index] = UNLABELLED
    return [LabelledImage(frame.rgb, table[frame.labels], frame.name) for frame in frames]
