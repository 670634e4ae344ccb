# SPDX-License-Identifier: Apache-2.0
"""Images and masks that the classes of a version were taught with, beside its reference frames.

    taught/<position of the class in the labels>/images/000.jpg, labels/000.png

Labels are those of a job's masks: 1 the class, 0 not, 255 not known. They are what a class is
given away with (`newfound_core.packages.segments`); nothing on this robot learns from them.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from newfound_core.segmentation.reference import read_frames, write_frames
from newfound_core.segmentation.samples import LabelledImage

TAUGHT_NAME = "taught"
MOST_TAUGHT = 20  # images of a class that are kept

T = TypeVar("T")


def read_taught(version: Path, index: int) -> list[LabelledImage]:
    """What a class was taught with; empty for one that was not learned here."""
    return read_frames(_folder(version, index), 2)


def write_taught(version: Path, index: int, pictures: Sequence[LabelledImage]) -> None:
    """Keep some of the images that a class was learned from: most show it, some may not."""
    showing = [picture for picture in pictures if (picture.labels == 1).any()]
    others = [picture for picture in pictures if not (picture.labels == 1).any()]
    others = _spread(others, max(MOST_TAUGHT // 4, MOST_TAUGHT - len(showing)))
    write_frames(_folder(version, index), _spread(showing, MOST_TAUGHT - len(others)) + others)


def copy_taught(version: Path, new: Path, forgotten: int | None = None) -> None:
    """Hand on what is kept to a new version, which may be one without a class."""
    for folder in sorted((version / TAUGHT_NAME).glob("[0-9][0-9][0-9]")):
        index = int(folder.name)
        if index != forgotten:
            shifted = forgotten is not None and index > forgotten
            shutil.copytree(folder, _folder(new, index - shifted))


def _folder(version: Path, index: int) -> Path:
    return version / TAUGHT_NAME / f"{index:03d}"


def _spread(found: list[T], most: int) -> list[T]:
    """At most so many, from all over the list: neighbours are often of one moment."""
    count = min(most, len(found))
    return [found[number * len(found) // count] for number in range(count)]
