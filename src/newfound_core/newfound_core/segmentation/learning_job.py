# SPDX-License-Identifier: Apache-2.0
"""A class of pixels learned from a job's folder; called by newfound_core.learning.

What was held out of the new class joins the reference frames: when the next class is learned, this
one is checked on them. Some of the images are kept, to give the class away.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
import torch

from newfound_core.errors import DataError
from newfound_core.learning.job import Job, SegmentOptions
from newfound_core.learning.job_folder import JobFolder
from newfound_core.models import LoadedModel, load_model
from newfound_core.segmentation import UNLABELLED
from newfound_core.segmentation.class_learning import (
    LearnedClass,
    LearningConfig,
    learn_class,
    save_learned,
)
from newfound_core.segmentation.label_image import read_label_image
from newfound_core.segmentation.network import SegmentationNetwork
from newfound_core.segmentation.reference import read_reference, write_reference
from newfound_core.segmentation.samples import LabelledImage, reduced
from newfound_core.segmentation.taught import copy_taught, write_taught

_KEPT = 5  # held-out frames of a learned class that are kept as reference

Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Start:
    """The checkpoint that a job starts from, with its reference frames."""

    folder: Path
    loaded: LoadedModel
    reference: list[LabelledImage]


@dataclass(frozen=True)
class Learned(LearnedClass):
    """What was learned, frames that show the new class, and what it was learned from."""

    frames: tuple[LabelledImage, ...] = ()
    pictures: tuple[LabelledImage, ...] = ()


def read_start(checkpoint: Path, device: torch.device) -> Start:
    """Read a version; raises a NewfoundError."""
    checkpoint = checkpoint.resolve()  # `current` may move meanwhile
    loaded = load_model(checkpoint, "segmentation", device)
    return Start(checkpoint, loaded, read_reference(checkpoint, len(loaded.labels)))


def config_of(options: SegmentOptions, stages: int) -> LearningConfig:
    """How a class is learned by a head on a backbone of so many stages, which stay frozen."""
    config = LearningConfig()
    frozen = 1 + stages if options.frozen_stages is None else options.frozen_stages  # and the stem
    training = replace(config.training, seed=options.seed, frozen=frozen)
    if options.iterations is not None:
        training = replace(training, iterations=options.iterations)
    variants = config.variants if options.variants is None else options.variants
    return replace(config, training=training, variants=variants)


def learn(start: Start, folder: JobFolder, job: Job, report: Report) -> Learned:
    """Learn the class of a job, resumed where a killed process has left it."""
    network = start.loaded.model
    assert isinstance(job.options, SegmentOptions)
    assert isinstance(network, SegmentationNetwork)
    size = start.loaded.metadata.preprocessing.size
    pictures = []
    for path in folder.image_paths():  # one at a time: large ones become smaller at once
        pictures.append(reduced(_picture(path, folder.mask_path(path)), size))
    folder.resume_path.mkdir(exist_ok=True)
    learned = learn_class(
        start.loaded,
        job.label,
        [picture.rgb for picture in pictures],
        [picture.labels for picture in pictures],
        config_of(job.options, len(network.backbone.stages)),
        reference=start.reference,
        state=folder.resume_path,
        on_progress=report,
    )
    index = len(learned.labels) - 1
    frames = [_frame(pictures[number], index) for number in learned.held_out[:_KEPT]]
    return Learned(**vars(learned), frames=tuple(frames), pictures=tuple(pictures))


def save(directory: Path, learned: Learned, start: Start, label: str) -> None:
    """Write the checkpoint with its reference frames and what its classes were taught with."""
    shutil.rmtree(directory, ignore_errors=True)  # of a process that was killed in between
    save_learned(directory, learned, start.loaded, label)
    write_reference(directory, [*start.reference, *learned.frames])
    copy_taught(start.folder, directory)
    write_taught(directory, len(learned.labels) - 1, learned.pictures)


def _picture(path: Path, mask: Path) -> LabelledImage:
    bgr = cv2.imread(str(path), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    if bgr is None:
        raise DataError(f"{path.name} cannot be decoded")
    picture = LabelledImage(
        cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), read_label_image(mask, 2), f"the mask of {path.name}"
    )
    picture.check(2)
    return picture


def _frame(picture: LabelledImage, index: int) -> LabelledImage:
    """A picture labelled in the network's numbers: only the new class is known in it."""
    labels = np.where(picture.labels == 1, np.uint8(index), np.uint8(UNLABELLED))
    return LabelledImage(picture.rgb, labels, picture.name)
