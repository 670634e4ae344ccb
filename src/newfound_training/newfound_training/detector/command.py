# SPDX-License-Identifier: Apache-2.0
"""`train_detector`: pictures with boxes in, a checkpoint of a region network out."""

import logging
from pathlib import Path
from typing import Any

from newfound_core.errors import DataError
from newfound_core.models import save_model
from newfound_training.detector.coco import fingerprint, sound_pictures, without_classes
from newfound_training.detector.options import DetectorOptions
from newfound_training.detector.task import DetectorTask
from newfound_training.running.card import write_model_card
from newfound_training.running.command import Command
from newfound_training.running.data import require_same_data
from newfound_training.running.run import Run
from newfound_training.running.training import train

_log = logging.getLogger(__name__)


def run_train_detector(options: DetectorOptions, run: Run) -> dict[str, Any]:
    """Trains, and writes the checkpoint into `<out>/checkpoint`."""
    everything = options.pictures()
    wanted = without_classes(everything, options.leave_out)
    if not wanted:
        raise DataError(f"every picture of {options.data} shows a class of --leave-out")
    pictures, corrupt = sound_pictures(wanted, Path(options.data), strict=options.strict)
    require_same_data(Path(options.data), map(fingerprint, pictures), run)
    task = DetectorTask(pictures, options, run)
    metrics = train(task, options, run)
    if run.team.leads:
        _save(task, options, metrics, run)
    return {
        "checkpoint": "checkpoint",
        "training_images": len(task.training_set),
        "validation_images": len(task.validation_set),
        "left_out_images": len(everything) - len(wanted),
        "corrupt_images": corrupt,
        **metrics,
    }


def _save(
    task: DetectorTask, options: DetectorOptions, metrics: dict[str, float], run: Run
) -> None:
    checkpoint = save_model(
        run.out / "checkpoint",
        task.model,
        ["object"],
        task.preprocessing,
        provenance=run.provenance(metrics),
        replace=True,
    )
    write_model_card(
        checkpoint,
        "Region proposal network",
        "Finds objects without naming them, for the open-world detector.",
        {
            "training images": len(task.training_set),
            "classes left out": ", ".join(options.leave_out) or "none",
        },
    )
    _log.info("checkpoint written to %s", checkpoint)


COMMAND = Command(
    "train-detector",
    "Trains a network that finds objects without naming them, on boxes in the format of COCO.",
    DetectorOptions,
    run_train_detector,
    {
        "checkpoint": "the trained model, a folder relative to result.json",
        "training_images, validation_images": "how many were trained on and held out",
        "left_out_images": "how many show a class of --leave-out",
        "corrupt_images": "files of those left out",
        "recall_10, recall_100": "share of the held-out objects that one of so many best "
        "proposals covers at an IoU of 0.5",
    },
)
