# SPDX-License-Identifier: Apache-2.0
"""`train_detector`: pictures with boxes in, a checkpoint of a region network out."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.detection.region_network import RegionConfig, RegionNetwork
from newfound_core.errors import DataError
from newfound_core.models import load_model, save_model, write_model_card
from newfound_core.preprocessing import Preprocessing, default_preprocessing
from newfound_core.tensors import load_into
from newfound_training.detector.coco import (
    Picture,
    fingerprint,
    read_rgb,
    sound_pictures,
    without_classes,
)
from newfound_training.detector.measures import (
    PROPOSAL_METRICS,
    Proposed,
    best_threshold,
    fit_calibration,
    measure_proposals,
    objectness_and_overlap,
)
from newfound_training.detector.options import DetectorOptions
from newfound_training.detector.scenes import SceneSampler, Variation, resized
from newfound_training.running.command import Command, Run, require_same_data
from newfound_training.running.training import (
    Task,
    pretrained_backbone,
    step_samples,
    train,
)

Sources = Mapping[str, Sequence[Picture]]  # by name


class Batch(NamedTuple):
    """Images and where their objects are."""

    images: Tensor  # [N, 3, H, W]
    boxes: list[Tensor]  # [objects, 4] each


class DetectorTask(Task):
    """Boxes and their quality; average recall on the pictures that are held out."""

    def __init__(self, sources: Sources, options: DetectorOptions, run: Run) -> None:
        torch.manual_seed(run.seed)
        self._run, self._options = run, options
        self.preprocessing = default_preprocessing(options.backbone, options.image_size)
        self.training_set: list[Picture] = []
        self.validation_set: dict[str, list[Picture]] = {}
        ends = []
        for number, (name, pictures) in enumerate(sources.items()):
            order = np.random.default_rng([run.seed, 5, number]).permutation(len(pictures))
            held_out = round(options.validation_share * len(pictures))
            self.validation_set[name] = [pictures[i] for i in sorted(order[:held_out])]
            self.training_set += [pictures[i] for i in sorted(order[held_out:])]
            ends.append(len(self.training_set))
        if len(set(ends) | {0}) <= len(ends):
            raise DataError("a source has no pictures left to train on")
        self._probabilities = _probabilities(ends, options.source_shares)
        self._scenes = SceneSampler(
            self.training_set,
            Variation(
                options.image_size,
                crop_area=options.crop_area,
                paste_probability=options.paste_probability,
                jitter=options.colour_jitter,
            ),
        )
        self.model: RegionNetwork = build_network(options).to(run.device)
        self.threshold = 0.0  # of objectness, found by `evaluate`

    def batch(self, step: int) -> Batch:
        """Random variants of random pictures: this process's share of the step."""
        _, generators = step_samples(self._run, step, self._options.batch_size)
        variants = [self._variant(generator) for generator in generators]
        return Batch(torch.stack([image for image, _ in variants]), [b for _, b in variants])

    def _variant(self, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
        number = int(generator.choice(len(self.training_set), p=self._probabilities))
        pixels, boxes = self._scenes(number, generator)
        return self.preprocessing.normalise(pixels), torch.from_numpy(boxes)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The losses of both stages."""
        device = self._run.device
        return self.model.losses(
            batch.images.to(device),
            [boxes.to(device) for boxes in batch.boxes],
            self._options.background_weight,
        )

    def evaluate(self) -> dict[str, float]:
        """Calibrate objectness on the held-out pictures; recall and ranking of each source."""
        pairs = [objectness_and_overlap(found) for found in self._held_out().values()]
        if not pairs:
            return {}
        slope, offset = fit_calibration(np.concatenate(pairs))
        self.model.config = replace(self.model.config, slope=slope, offset=offset)
        held_out = self._held_out()
        self.threshold = best_threshold(list(held_out.values()))
        return {
            f"{name} {key}": value
            for name, found in held_out.items()
            for key, value in measure_proposals(found).items()
        }

    def _held_out(self) -> dict[str, list[Proposed]]:
        """What is proposed for the held-out pictures of each source."""
        return {
            name: proposed(self.model, pictures, self.preprocessing, self._run.device)
            for name, pictures in self.validation_set.items()
            if pictures
        }


def _probabilities(ends: Sequence[int], shares: Sequence[float]) -> np.ndarray:
    """How often each picture is drawn; `ends` are where the sources end."""
    counts = np.diff([0, *ends])
    wanted = np.array(shares or counts, np.float64)
    return np.repeat(wanted / wanted.sum() / counts, counts)


@torch.inference_mode()
def proposed(
    model: nn.Module,
    pictures: Sequence[Picture],
    preprocessing: Preprocessing,
    device: torch.device,
) -> list[Proposed]:
    """What a network proposes for pictures, with their objects, at the network's size."""
    found = []
    for picture in pictures:
        pixels, truth = resized((read_rgb(picture), picture.boxes), preprocessing.size)
        boxes, objectness = model(preprocessing(pixels)[None].to(device))[0]
        found.append(Proposed(truth, boxes.cpu().numpy(), objectness.cpu().numpy()))
    return found


def build_network(options: DetectorOptions) -> RegionNetwork:
    """The network with pretrained weights; those of its first stages will not change."""
    backbone = pretrained_backbone(options)
    config = RegionConfig(options.channels, options.strides, options.layers, options.refined)
    network = RegionNetwork(backbone, config)
    if options.start:
        load_into(network, load_model(options.start, "regions").model.state_dict(), options.start)
    return network


_log = logging.getLogger(__name__)


def run_train_detector(options: DetectorOptions, run: Run) -> dict[str, Any]:
    """Train, and write the checkpoint into `<out>/checkpoint`."""
    sources, corrupt, left_out = {}, [], 0
    for name, everything in options.by_source().items():
        wanted = without_classes(everything, options.leave_out)
        left_out += len(everything) - len(wanted)
        if not wanted:
            raise DataError(f"every picture of {name} shows a class of --leave-out")
        root = Path(options.data)
        sources[name], bad = sound_pictures(wanted, root, strict=options.strict)
        corrupt += bad
    pictures = [picture for of_source in sources.values() for picture in of_source]
    require_same_data(Path(options.data), map(fingerprint, pictures), run)
    task = DetectorTask(sources, options, run)
    metrics = train(task, options, run)
    if run.process_group.is_main_process:
        _save(task, options, metrics, run)
    return {
        "checkpoint": "checkpoint",
        "training_images": len(task.training_set),
        "validation_images": sum(map(len, task.validation_set.values())),
        "left_out_images": left_out,
        "corrupt_images": corrupt,
        "min_objectness": task.threshold,
        "validation": {
            name: {key: metrics[f"{name} {key}"] for key in PROPOSAL_METRICS}
            for name, pictures in task.validation_set.items()
            if pictures
        },
    }


def _save(
    task: DetectorTask, options: DetectorOptions, metrics: dict[str, float], run: Run
) -> None:
    checkpoint = save_model(
        run.out / "checkpoint",
        task.model,
        ["object"],
        task.preprocessing,
        thresholds={"min_objectness": task.threshold} if task.threshold else None,
        provenance=run.provenance(metrics),
        half=options.half,
        replace=True,
    )
    sources = ", ".join(options.sources) or Path(options.data).name
    write_model_card(
        checkpoint,
        "Region network",
        "Finds objects without naming them, from colour alone, for the open-world detector. "
        "Objectness is the IoU with an object that it expects of a box. Measured on "
        f"{sum(map(len, task.validation_set.values()))} pictures that were held out of its data "
        "for choices; results on others are in docs/results.md.",
        {
            "pictures trained on": f"{len(task.training_set)} of {sources}",
            "terms of the data": "; ".join(options.terms) or "not said",
            "classes left out": ", ".join(options.leave_out) or "none",
        },
    )
    _log.info("checkpoint written to %s", checkpoint)


COMMAND = Command(
    "train-detector",
    "Trains a network that finds objects without naming them, on pictures with boxes.",
    DetectorOptions,
    run_train_detector,
    {
        "checkpoint": "the trained model, a folder relative to result.json",
        "training_images, validation_images": "how many were trained on and held out",
        "left_out_images": "how many show a class of --leave-out",
        "corrupt_images": "files of those left out",
        "min_objectness": "objectness with the best F2 at IoU 0.5 on the held-out pictures; part "
        "of the checkpoint",
        "validation": "by source, of the held-out pictures: ar_10, ar_20 (average recall of so "
        "many proposals\n      over IoU 0.5 to 0.95), recall_10, recall_20 (at IoU 0.5), "
        "correlation of\n      objectness and IoU (Spearman)",
    },
)
