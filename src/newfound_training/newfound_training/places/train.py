# SPDX-License-Identifier: Apache-2.0
"""`train_places`: images of several domains in, a checkpoint for unseen ones out."""

import logging
from typing import Any

import numpy as np

from newfound_core.errors import ConfigError
from newfound_core.models import save_model, write_model_card
from newfound_core.places import WbnClassifier
from newfound_training.data import load_pixels, open_images
from newfound_training.places.data import PlaceImages, Sources, evenly_chosen
from newfound_training.places.models import domain_names
from newfound_training.places.options import PlacesOptions
from newfound_training.places.tables import accuracies, draw_weights, weight_histograms
from newfound_training.places.task import PlaceData, PlaceTask, choose_softening, soften
from newfound_training.running.command import Command, Run, require_same_images
from newfound_training.running.figures import confusion, draw_confusions
from newfound_training.running.training import train

_log = logging.getLogger(__name__)


def run_train_places(options: PlacesOptions, run: Run) -> dict[str, Any]:
    """Train, test on the targets, and write the checkpoint into `<out>/checkpoint`."""
    _refuse_softening_without_labels(options)
    images = open_place_images(options, run)
    sources = split_sources(images, options)
    images.require_every_place(sources.names)
    targets = {name: images.of(name) for name in options.target_domains}
    data = PlaceData(images, options, run)
    task = PlaceTask(data, sources, options, run)
    metrics = train(task, options, run)
    candidates: list[dict[str, Any]] = []
    if options.method == "wbn":
        best, candidates = choose_softening(data, sources, options, run)
        assert isinstance(task.model, WbnClassifier)
        soften(task.model, best)
        if len(sources.validation):  # as the model will be used
            metrics["validation_accuracy"] = task.accuracy(sources.validation)
    tests = {name: measure(task, indices) for name, indices in targets.items()}
    if run.process_group.is_main_process:
        _draw(task, tests, options, run)
        _save(task, tests, options, metrics, run)
    run.process_group.barrier()
    data.discard()
    return {
        "checkpoint": "checkpoint",
        "classes": list(images.pixels.images.class_names),
        "source_domains": list(sources.names),
        "training_images": sources.count,
        "validation_images": len(sources.validation),
        "corrupt_images": list(images.pixels.corrupt),
        **metrics,
        "softening": candidates,
        "targets": tests,
    }


def _refuse_softening_without_labels(options: PlacesOptions) -> None:
    for name in ("softening", "assignment_smoothing", "assignment_temperature"):
        if options.method != "wbn" and getattr(options, name) != getattr(PlacesOptions, name):
            raise ConfigError(
                f"{name} is for --method wbn: {options.method} has nothing to soften"
            )


def open_place_images(options: PlacesOptions, run: Run) -> PlaceImages:
    """All images, decoded; one process decodes, the others wait."""
    images = open_images(options.data, options.layout)
    with run.process_group.main_process_first():
        pixels = load_pixels(
            images, options.image_size, strict=options.strict, limit_gb=options.cache_limit_gb
        )
    if options.images_per_place:
        pixels = pixels.select(evenly_chosen(pixels.images, options.images_per_place))
    require_same_images(pixels.images, run)
    return PlaceImages(pixels, options.domain_part)


def split_sources(images: PlaceImages, options: PlacesOptions) -> Sources:
    """The source domains that the options name, or all that are not targets."""
    rest = [name for name in images.domain_names if name not in options.target_domains]
    names = options.source_domains or tuple(rest)
    needed = 1 if options.method == "bn" else 2
    if len(names) < needed:
        raise ConfigError(
            f"{options.method} needs at least {needed} source domains, but of the domains "
            f"{', '.join(images.domain_names)} there remain: {', '.join(names) or 'none'}"
        )
    return Sources.split(images, names, options.validation_share, options.seed)


def measure(task: PlaceTask, indices: np.ndarray) -> dict[str, Any]:
    """Accuracy on images of a domain that the model has not seen."""
    images = task.data.images
    predictions = task.predict(indices)
    classes = len(images.pixels.images.class_names)
    counts = confusion(images.labels[indices], predictions.probabilities.argmax(1), classes)
    return {
        "images": len(indices),
        **accuracies(counts),
        "confusion": counts.tolist(),
        "domain_weights": weight_histograms(predictions.domain_weights, images.folders[indices]),
    }


def _draw(task: PlaceTask, tests: dict[str, Any], options: PlacesOptions, run: Run) -> None:
    images = task.data.images.pixels.images
    if tests:
        counts = np.sum([found["confusion"] for found in tests.values()], 0)
        titled = {"unseen domains": counts}
        draw_confusions(titled, images.class_names, run.out / "confusion.png")
    names = domain_names(options, task.model, task.sources.names)
    if tests and names:
        histograms = {f: h for found in tests.values() for f, h in found["domain_weights"].items()}
        draw_weights(histograms, names, run.out / "domain_weights.png")


def _save(
    task: PlaceTask,
    tests: dict[str, Any],
    options: PlacesOptions,
    metrics: dict[str, float],
    run: Run,
) -> None:
    names = task.sources.names
    held_out = {f"accuracy in {name} (unseen)": t["accuracy"] for name, t in tests.items()}
    confidence = task.source_confidence()  # before the model is one for images again
    model = task.whole()
    model.source_confidence = confidence
    checkpoint = save_model(
        run.out / "checkpoint",
        model,
        task.data.images.pixels.images.class_names,
        task.data.preprocessing,
        domains=domain_names(options, task.model, names),
        provenance=run.provenance(metrics | held_out),
        replace=True,
    )
    unseen = f" Never trained on: {', '.join(tests)}." if tests else ""
    write_model_card(
        checkpoint,
        f"Places, {options.method}, trained on {', '.join(names)}",
        f"Names the kind of place that an image shows, also in places unlike its sources.{unseen}",
        {"training images": task.sources.count},
    )
    _log.info("checkpoint written to %s", checkpoint)


COMMAND = Command(
    "train-places",
    "Trains a place classifier on several domains, for domains it has not seen.",
    PlacesOptions,
    run_train_places,
    {
        "checkpoint": "the trained model, a folder relative to result.json",
        "classes, source_domains": "names, in the order of the model's outputs and weights",
        "training_images, validation_images": "how many were trained on and held out",
        "corrupt_images": "names of those left out",
        "validation_accuracy": "share of the sources' held-out images recognised, 0 to 1",
        "domain_accuracy": "share of them whose domain the branch names, with labelled domains",
        "softening": "with wbn and at least three sources: accuracy of every candidate on "
        "sources left out\n      of training, from which the softening was chosen, and of equal "
        "weights",
        "targets": "for each: images, accuracy (over images), place_accuracy (mean over "
        "places),\n      confusion (counts, [true][predicted]), domain_weights (for each folder "
        "and source,\n      images by weight in ten equal bins)",
    },
)
