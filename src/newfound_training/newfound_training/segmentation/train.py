# SPDX-License-Identifier: Apache-2.0
"""`train_segmentation`: labelled images in, a checkpoint of a segmentation network out."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from newfound_core.errors import ConfigError, DataError
from newfound_core.frozen_features import frozen_parts
from newfound_core.models import save_model, write_model_card
from newfound_core.preprocessing import Preprocessing, default_preprocessing
from newfound_core.resume import STATE_NAME
from newfound_core.segmentation import BACKGROUND
from newfound_core.segmentation.label_image import check_labels
from newfound_core.segmentation.network import SegmentationNetwork
from newfound_core.segmentation.reference import write_reference
from newfound_core.segmentation.samples import LabelledImage, Samples, reduced
from newfound_core.segmentation.training import fit
from newfound_training.running.command import Command, Run, require_same_data
from newfound_training.segmentation.data import IGNORED, LabelledSet
from newfound_training.segmentation.features import measure, stored_samples
from newfound_training.segmentation.options import TrainSegmentationOptions

_log = logging.getLogger(__name__)


def run_train(options: TrainSegmentationOptions, run: Run) -> dict[str, Any]:
    """Train, and write the checkpoint into `<out>/checkpoint`."""
    if not 0 <= options.reject <= 1:
        raise ConfigError(f"reject must be a probability, got {options.reject}")
    if options.reference < 0:
        raise ConfigError(f"reference must not be negative, got {options.reference}")
    data = options.labelled()
    known = [name for name in data.names if name not in (*IGNORED, BACKGROUND)]
    data.check_classes(options.classes)
    labels = check_labels([BACKGROUND, *(options.classes or known)])
    files = [*data.training, *data.test]
    require_same_data(Path(options.data), (f.fingerprint() for f in files), run)
    torch.manual_seed(run.seed)
    network = options.build(len(labels)).to(run.device)
    preprocessing = default_preprocessing(options.backbone, options.image_size)
    metrics = _train(network, data, labels, preprocessing, options=options, run=run)
    _save(network, labels, preprocessing, metrics, options=options, run=run, data=data)
    return {
        "checkpoint": "checkpoint",
        "classes": list(labels),
        "training_images": len(data.training),
        "test_images": len(data.test),
        **metrics,
    }


def _train(
    network: SegmentationNetwork,
    data: LabelledSet,
    labels: tuple[str, ...],
    preprocessing: Preprocessing,
    *,
    options: TrainSegmentationOptions,
    run: Run,
) -> dict[str, Any]:
    common: dict[str, Any] = {"frozen": options.frozen_stages, "run": run}
    samples = stored_samples(
        network, data, data.training, preprocessing,
        variants=options.variants, name="training", **common,
    )  # fmt: skip
    held_out = stored_samples(
        network, data, data.test, preprocessing, variants=0, name="test", **common
    )
    _require_shown(samples, held_out, labels, data)
    config = options.first_training(run.seed)
    with tqdm(total=config.iterations, desc="training", disable=None) as bar:
        fit(
            network,
            samples,
            data.table(labels),
            config,
            state=run.out / STATE_NAME,
            on_step=lambda done, total: bar.update(done - bar.n),
        )
    truths = [data.read(file).labels for file in data.test]
    confusion, confidence = measure(network, held_out, truths, data.table(labels))
    layers = trained_layers(network, options.frozen_stages)
    network.with_config(source_confidence=confidence, adaptive_layers=layers)
    iou = confusion.iou()
    return {
        "mean_iou": confusion.mean_iou(range(1, len(labels))),
        "iou": {n: float(v) for n, v in zip(labels, iou, strict=True) if not np.isnan(v)},
        "confidence": confidence,
    }


def _require_shown(
    samples: Samples, held_out: Samples, labels: tuple[str, ...], data: LabelledSet
) -> None:
    """A DataError where no class is shown; a warning for one that cannot be learned."""
    table = data.table(labels)
    learned, tested = (set(np.unique(table[s.labels]).tolist()) for s in (samples, held_out))
    known = set(range(1, len(labels)))
    for shown, use in ((learned, "trained"), (tested, "tested")):
        if not known & shown:
            raise DataError(f"no pixel of the pictures {use} on is labelled as one of the classes")
    if missing := [labels[number] for number in sorted(known - learned)]:
        _log.warning("not learned, since no picture trained on shows it: %s", ", ".join(missing))


def trained_layers(network: SegmentationNetwork, frozen: int) -> str:
    """The normalisation layers that ONDA may move: those behind the frozen ones.

    Frozen layers have kept the statistics of their own data, and the others were trained behind
    them: with statistics of rooms there, the network would be another.
    """
    kept = sum(_normalisations(part) for part in frozen_parts(network.backbone, frozen))
    count = _normalisations(network) - kept
    return f"last:{count}" if kept and count else "all"


def _normalisations(module: nn.Module) -> int:
    return sum(isinstance(layer, nn.BatchNorm2d) for layer in module.modules())


def _save(
    network: SegmentationNetwork,
    labels: tuple[str, ...],
    preprocessing: Preprocessing,
    metrics: Mapping[str, Any],
    *,
    options: TrainSegmentationOptions,
    run: Run,
    data: LabelledSet,
) -> None:
    measured = {"mean IoU": metrics["mean_iou"], "confidence": metrics["confidence"]}
    checkpoint = save_model(
        run.out / "checkpoint",
        network,
        labels,
        preprocessing,
        thresholds={"min_confidence": options.reject} if options.reject else None,
        provenance=run.provenance(measured),
        half=options.half,
        replace=True,
    )
    write_reference(checkpoint, reference_frames(data, labels, options, run.seed))
    write_model_card(
        checkpoint,
        f"Segmentation of {len(labels) - 1} classes",
        "Names the class of every pixel, and learns further classes without the old data (MiB). "
        f"Mean IoU leaves out the background and is of {len(data.test)} pictures that were not "
        "trained on.",
        {
            "pictures trained on": len(data.training),
            **{f"IoU of {name}": value for name, value in metrics["iou"].items()},
            "terms of the data": options.terms or "not said",
        },
    )
    _log.info("checkpoint written to %s", checkpoint)


def reference_frames(
    data: LabelledSet, labels: tuple[str, ...], options: TrainSegmentationOptions, seed: int
) -> list[LabelledImage]:
    """Training pictures that a robot checks known classes on, in the network's numbers."""
    order = np.random.default_rng([seed, 9]).permutation(len(data.training))
    table, frames = data.table(labels), []
    for number in order[: options.reference]:
        picture = reduced(data.read(data.training[number]), options.image_size)
        frames.append(LabelledImage(picture.rgb, table[picture.labels], picture.name))
    return frames


COMMAND = Command(
    "train-segmentation",
    "Trains a network that names the class of every pixel, on images with label images.",
    TrainSegmentationOptions,
    run_train,
    {
        "checkpoint": "the trained model, a folder relative to result.json",
        "classes": "the labels, the background first",
        "training_images, test_images": "how many were trained and tested on",
        "mean_iou, iou": "on the pictures tested on: mean without the background, and by class",
        "confidence": "mean over their pixels; part of the checkpoint, for ONDA",
    },
)
