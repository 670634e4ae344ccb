# SPDX-License-Identifier: Apache-2.0
"""`learn_segment`: one class more, from a few images with masks, checked as on the robot."""

import logging
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from newfound_core.errors import ConfigError
from newfound_core.learning.job import JobState, LearningOptions
from newfound_core.learning.validation import validate
from newfound_core.models import LoadedModel, load_model
from newfound_core.segmentation.class_learning import LearningConfig, learn_class, save_learned
from newfound_core.segmentation.reference import read_reference, write_reference
from newfound_core.segmentation.samples import LabelledImage, reduced
from newfound_core.segmentation.taught import copy_taught, write_taught
from newfound_training.running.command import Command, Run, require_same_data
from newfound_training.running.options import RunOptions, option
from newfound_training.segmentation.data import LabelledSet, read_pairs

_log = logging.getLogger(__name__)
_DEFAULT = LearningConfig()


@dataclass(frozen=True)
class LearnSegmentOptions(RunOptions):
    """Options of `learn_segment`."""

    checkpoint: str = option("", "folder of the model to start from", required=True)
    label: str = option("", "name of the new class", required=True)
    data: str = option(
        "",
        "folder with images/ and labels/*.png: 1 the class, 0 not, 255 not known",
        required=True,
    )
    reference: str = option(
        "",
        "folder with images/ and labels/ in the numbers of the model, as that of a checkpoint, "
        "which is the default",
    )
    iterations: int = option(_DEFAULT.training.iterations, "steps of training")
    batch_size: int = option(_DEFAULT.training.batch_size, "pictures per step")
    lr: float = option(_DEFAULT.training.learning_rate, "learning rate of the backbone")
    frozen_stages: int = option(_DEFAULT.training.frozen, "stem and stages whose weights stay")
    variants: int = option(_DEFAULT.variants, "random crops of every picture")
    distillation: float = option(_DEFAULT.training.distillation, "its weight (lambda)")
    statistics: Literal["batch", "fixed"] = option(
        _DEFAULT.training.statistics, "of normalisation in the layers that learn"
    )
    max_accuracy_loss: float = option(0.1, "of the known classes on average; 1 allows everything")

    def learning(self) -> LearningConfig:
        """How the class is learned."""
        training = replace(
            _DEFAULT.training,
            iterations=self.iterations,
            batch_size=self.batch_size,
            learning_rate=self.lr,
            frozen=self.frozen_stages,
            distillation=self.distillation,
            statistics=self.statistics,
            seed=self.seed,
        )
        return replace(_DEFAULT, training=training, variants=self.variants)


def run_learn_segment(options: LearnSegmentOptions, run: Run) -> dict[str, Any]:
    """Learn, check, and write the checkpoint if known classes are kept."""
    loaded = load_model(options.checkpoint, "segmentation", run.device)
    judge = LearningOptions(max_accuracy_loss=options.max_accuracy_loss)
    pictures = _read(Path(options.data), ("not", options.label), run)
    reference = _reference(options, loaded, run)
    with tqdm(total=options.iterations, desc=options.label, disable=None) as bar:

        def on_progress(phase: str, done: int, total: int) -> None:
            if phase == "training":
                bar.update(done - bar.n)

        learned = learn_class(
            loaded,
            options.label,
            [p.rgb for p in pictures],
            [p.labels for p in pictures],
            options.learning(),
            reference=reference,
            state=run.out,
            on_progress=on_progress,
        )
    state, reason, message = validate(learned.accuracy, judge)
    if state is JobState.DONE:
        checkpoint = save_learned(run.out / "checkpoint", learned, loaded, options.label)
        write_reference(checkpoint, reference)
        copy_taught(Path(options.checkpoint), checkpoint)
        small = [reduced(p, loaded.metadata.preprocessing.size) for p in pictures]
        write_taught(checkpoint, len(learned.labels) - 1, small)
    _log.info("%s: %s %s", options.label, state, message)
    return {
        "state": str(state),
        "reason": reason,
        "message": message,
        "checkpoint": "checkpoint" if state is JobState.DONE else "",
        "images_used": learned.images_used,
        "accuracy": {label: asdict(found) for label, found in learned.accuracy.items()},
    }


def _reference(options: LearnSegmentOptions, loaded: LoadedModel, run: Run) -> list[LabelledImage]:
    if not options.reference:
        return read_reference(Path(options.checkpoint), len(loaded.labels))
    return _read(Path(options.reference), loaded.labels, run)


def _read(folder: Path, names: tuple[str, ...], run: Run) -> list[LabelledImage]:
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder")
    files = read_pairs(folder)
    require_same_data(folder, (f.fingerprint() for f in files), run)
    data = LabelledSet(names, files, ())
    return [data.read(file) for file in files]


COMMAND = Command(
    "learn-segment",
    "Teaches a segmentation network one class from a few images, without the old data.",
    LearnSegmentOptions,
    run_learn_segment,
    {
        "state, reason, message": "done, or rejected and why",
        "checkpoint": "the new model, a folder relative to result.json; empty if rejected",
        "images_used": "how many images were learned from or held out",
        "accuracy": "by class: samples (pictures), before, after. Of known classes the share of "
        "their pixels\n      that is found, of the new one the IoU on images held out",
    },
)
