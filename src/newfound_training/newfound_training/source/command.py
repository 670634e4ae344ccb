# SPDX-License-Identifier: Apache-2.0
"""`train_source`: images in, checkpoint out."""

import logging
from pathlib import Path
from typing import Any

from newfound_core.models import save_model
from newfound_training.data import Pixels, load_pixels, open_images
from newfound_training.running.card import write_model_card
from newfound_training.running.command import Command
from newfound_training.running.confusion import draw_confusions
from newfound_training.running.data import require_same_images
from newfound_training.running.run import Run
from newfound_training.running.training import train
from newfound_training.source.options import SourceOptions
from newfound_training.source.task import SourceTask

_log = logging.getLogger(__name__)


def run_train_source(options: SourceOptions, run: Run) -> dict[str, Any]:
    """Trains, and writes the checkpoint into `<out>/checkpoint`."""
    pixels = source_pixels(options, run)
    return train_on(pixels, options, run)


def source_pixels(options: SourceOptions, run: Run) -> Pixels:
    """The images of the source domains; one process decodes, the others wait."""
    images = open_images(options.data, options.layout)
    domains = options.domains or images.domain_names
    images.require_every_class(domains)
    with run.team.leader_first():
        pixels = load_pixels(
            images,
            options.image_size,
            strict=options.strict,
            resize=options.resize,
            limit_gb=options.cache_limit_gb,
        )
    wanted = [pixels.images.domain_index(name) for name in domains]
    pixels = pixels.select([i for i, d in enumerate(pixels.images.domains) if d in wanted])
    require_same_images(pixels.images, run)
    return pixels


def train_on(pixels: Pixels, options: SourceOptions, run: Run) -> dict[str, Any]:
    """Trains on all of the images and writes the checkpoint."""
    task = SourceTask(pixels, options, run)
    metrics = train(task, options, run)
    if run.team.leads:
        _save(task, pixels, options, metrics, run)
    return {
        "checkpoint": "checkpoint",
        "classes": list(pixels.images.class_names),
        "training_images": len(task.training_set),
        "validation_images": len(task.validation_set),
        "corrupt_images": list(pixels.corrupt),
        **metrics,
    }


def _save(
    task: SourceTask, pixels: Pixels, options: SourceOptions, metrics: dict[str, float], run: Run
) -> Path:
    checkpoint = save_model(
        run.out / "checkpoint",
        task.model,
        pixels.images.class_names,
        task.preprocessing,
        provenance=run.provenance(metrics),
        replace=True,
    )
    if task.validation_confusion is not None:
        counts = {"held-out images": task.validation_confusion}
        draw_confusions(counts, pixels.images.class_names, run.out / "confusion.png")
    domains = ", ".join(options.domains) or "all domains"
    write_model_card(
        checkpoint,
        f"Classifier trained on {domains}",
        "A source model: the nodes adapt its normalisation statistics to what they see (ONDA).",
        {"training images": len(task.training_set)},
    )
    _log.info("checkpoint written to %s", checkpoint)
    return checkpoint


COMMAND = Command(
    "train-source",
    "Trains a classifier on labelled images, for online adaptation.",
    SourceOptions,
    run_train_source,
    {
        "checkpoint": "the trained model, a folder relative to result.json",
        "classes": "names, in the order of the model's outputs",
        "training_images, validation_images": "how many were trained on and held out",
        "corrupt_images": "names of those left out",
        "validation_accuracy": "share of the held-out images recognised, 0 to 1",
    },
)
