# SPDX-License-Identifier: Apache-2.0
"""The images of a task: to train on, and held out to measure it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from newfound_core.errors import ConfigError, DataError
from newfound_training.data import Pixels, load_pixels, open_images
from newfound_training.data.images import ImageSet
from newfound_training.data.sampling import split
from newfound_training.running.command import Run, require_same_data


@dataclass(frozen=True)
class TaskImages:
    """Which images of a folder make up a task."""

    data: str
    layout: str = "tree"
    domains: tuple[str, ...] = ()  # to train on; none: all that are not tested on
    test_domains: tuple[str, ...] = ()  # none: a share of the training domains is held out
    classes: tuple[str, ...] = ()  # none: all
    images_per_class: int = 0  # to train on; 0: all
    test_images_per_class: int = 0
    held_out_share: float = 0.2


class TaskData(NamedTuple):
    """Decoded images of a task; classes are numbered alike in both."""

    training: Pixels
    held_out: Pixels

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes, in the order of the model's outputs."""
        return self.training.images.class_names


class Decoding(NamedTuple):
    """How images are read."""

    size: int
    strict: bool = False
    cache_limit_gb: float = 20.0


def open_task(task: TaskImages, decoding: Decoding, run: Run) -> TaskData:
    """List, divide and decode the images of a task."""
    images = _of_classes(open_images(task.data, task.layout), task.classes)
    rest = tuple(name for name in images.domain_names if name not in task.test_domains)
    own = _of_domains(images, task.domains or rest)
    if task.test_domains:
        training, held_out = own, _of_domains(images, task.test_domains)
    else:
        train, test = split(own.labels, task.held_out_share, run.seed, own.groups)
        training, held_out = own.select(train), own.select(test)
    training = _limited(training, task.images_per_class)
    held_out = _limited(held_out, task.test_images_per_class)
    _require_every_class(training)
    files = [source.fingerprint() for part in (training, held_out) for source in part.sources]
    require_same_data(images.root, [*images.class_names, *files], run)
    with run.process_group.main_process_first():
        decoded = _decoded(training, decoding)
        return TaskData(
            decoded, _decoded(held_out, decoding) if len(held_out) else decoded.select([])
        )


def _decoded(images: ImageSet, decoding: Decoding) -> Pixels:
    return load_pixels(
        images, decoding.size, strict=decoding.strict, limit_gb=decoding.cache_limit_gb
    )


def _of_domains(images: ImageSet, names: Sequence[str]) -> ImageSet:
    wanted = [images.domain_index(name) for name in names]
    return images.select(np.flatnonzero(np.isin(images.domains, wanted)))


def _of_classes(images: ImageSet, names: Sequence[str]) -> ImageSet:
    """The images of some classes, numbered anew in the order given."""
    if not names:
        return images
    if len(set(names)) != len(names):
        raise ConfigError(f"a class can be named once only, got {', '.join(names)}")
    unknown = sorted(set(names) - set(images.class_names))
    if unknown:
        raise DataError(f"{images.root} has no class {unknown[0]!r}; see its folders")
    number = {images.class_names.index(name): new for new, name in enumerate(names)}
    kept = images.select([i for i, label in enumerate(images.labels) if int(label) in number])
    labels = np.array([number[int(label)] for label in kept.labels], dtype=np.int64)
    return replace(kept, labels=labels, class_names=tuple(names))


def _limited(images: ImageSet, count: int) -> ImageSet:
    """At most so many images of every class, spread evenly over their order."""
    if not count:
        return images
    chosen: list[int] = []
    for label in np.unique(images.labels):
        own = np.flatnonzero(images.labels == label)
        spread = np.linspace(0, len(own) - 1, min(count, len(own))).round().astype(int)
        chosen += own[spread].tolist()
    return images.select(sorted(chosen))


def _require_every_class(images: ImageSet) -> None:
    if len(images.class_names) < 2:
        raise DataError(
            f"{Path(images.root)} has {len(images.class_names)} class for this task: at least two "
            "are needed, to tell apart"
        )
    present = np.unique(images.labels)
    missing = [name for i, name in enumerate(images.class_names) if i not in present]
    if missing:
        raise DataError(f"{Path(images.root)} has no training images of {', '.join(missing)}")
