# SPDX-License-Identifier: Apache-2.0
"""`train_detector`: pictures with boxes in, a checkpoint of a region network out."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.augmentation import Augmentation
from newfound_core.detection.region_network import RegionConfig, RegionNetwork
from newfound_core.errors import ConfigError, DataError
from newfound_core.models import save_model, write_model_card
from newfound_core.preprocessing import Preprocessing, default_preprocessing
from newfound_training.data.sampling import Shuffled
from newfound_training.detector.coco import (
    Picture,
    PictureOptions,
    fingerprint,
    read_rgb,
    sound_pictures,
    without_classes,
)
from newfound_training.detector.measures import covered
from newfound_training.running.command import Command, Run, require_same_data
from newfound_training.running.options import option
from newfound_training.running.training import (
    Task,
    TrainingOptions,
    pretrained_backbone,
    step_samples,
    train,
)


@dataclass(frozen=True)
class DetectorOptions(TrainingOptions, PictureOptions):
    """A region proposal network on a pretrained backbone, trained on boxes without names."""

    strict: bool = option(False, "stop at a corrupt picture instead of leaving it out")
    iterations: int = option(600, "number of steps")
    batch_size: int = option(8, "images per step, over all processes together")
    new_lr: float = option(0.02, "learning rate of layers that start from random values")
    warmup: int = option(50, "steps over which the learning rate rises")
    backbone: str = option("efficientnet_lite0", "network; see newfound_core.backbones")
    weights: str = option("imagenet", "imagenet, a file of tensors, or random")
    stages: int = option(0, "keep only so many stages of the network; 0 is all")
    frozen_stages: int = option(3, "stem and stages whose weights stay")
    image_size: int = option(320, "pixels; the whole picture is squeezed into a square")
    channels: int = option(64, "of the feature pyramid")
    strides: tuple[int, ...] = option(
        (8, 16, 32), "of the feature maps that boxes are proposed from"
    )
    anchor_sizes: tuple[float, ...] = option((24.0, 48.0, 96.0), "pixels, one for each stride")
    leave_out: tuple[str, ...] = option(
        (), "classes whose pictures are not trained on, so that they stay unknown"
    )
    validation_share: float = option(0.1, "of the pictures, held out to measure recall")
    colour_jitter: float = option(0.3, "random brightness, contrast and saturation")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frozen_stages < 0:
            raise ConfigError(f"frozen_stages must not be negative, got {self.frozen_stages}")
        if not 0 <= self.validation_share < 1:
            raise ConfigError(f"validation_share must be in [0, 1), got {self.validation_share}")


class Batch(NamedTuple):
    """Images and where their objects are."""

    images: Tensor  # [N, 3, H, W]
    boxes: list[Tensor]  # [objects, 4] each


class DetectorTask(Task):
    """Objectness and boxes; recall on the pictures that are held out."""

    def __init__(self, pictures: Sequence[Picture], options: DetectorOptions, run: Run) -> None:
        torch.manual_seed(run.seed)
        self._run = run
        self.preprocessing = default_preprocessing(options.backbone, options.image_size)
        jitter = options.colour_jitter
        self._colours = Augmentation(brightness=jitter, contrast=jitter, saturation=jitter)
        order = np.random.default_rng([run.seed, 5]).permutation(len(pictures))
        held_out = round(options.validation_share * len(pictures))
        self.validation_set = [pictures[i] for i in order[:held_out]]
        self.training_set = [pictures[i] for i in order[held_out:]]
        if not self.training_set:
            raise DataError("no pictures are left to train on")
        self._order = Shuffled(len(self.training_set), options.batch_size, run.seed)
        self.model: RegionNetwork = build_network(options).to(run.device)

    def batch(self, step: int) -> Batch:
        """Random variants of this process's share of the step's pictures."""
        positions, generators = step_samples(self._run, step, self._order.batch_size)
        variants = [
            self._variant(self.training_set[int(index)], generator)
            for index, generator in zip(self._order(step)[positions], generators, strict=True)
        ]
        return Batch(torch.stack([image for image, _ in variants]), [b for _, b in variants])

    def _variant(self, picture: Picture, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
        """The whole picture in other colours, maybe mirrored together with its boxes."""
        pixels = read_rgb(picture)
        size = self.preprocessing.size
        boxes = scaled(picture.boxes, pixels, size)
        image = self.preprocessing.resized(pixels)
        if generator.random() < 0.5:
            image = np.ascontiguousarray(image[:, ::-1])
            boxes[:, [0, 2]] = size - boxes[:, [2, 0]]
        image = self._colours.jitter(image, generator)
        return self.preprocessing.normalise(image), torch.from_numpy(boxes)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The two losses of a region proposal network."""
        device = self._run.device
        losses = self.model.losses(
            batch.images.to(device), [boxes.to(device) for boxes in batch.boxes]
        )
        return {
            "objectness": losses["loss_objectness"],
            "boxes": losses["loss_rpn_box_reg"],
        }

    def evaluate(self) -> dict[str, float]:
        """Share of the held-out objects that one of the best proposals covers at IoU 0.5."""
        if not self.validation_set:
            return {}
        return recalls(self.model, self.validation_set, self.preprocessing, self._run.device)


@torch.inference_mode()
def recalls(
    model: nn.Module,
    pictures: Sequence[Picture],
    preprocessing: Preprocessing,
    device: torch.device,
) -> dict[str, float]:
    """Recall of objects by the ten and by the hundred best proposals."""
    found: dict[int, list[bool]] = {10: [], 100: []}
    for picture in pictures:
        pixels = read_rgb(picture)
        image = preprocessing(pixels)
        boxes, _ = model(image[None].to(device))[0]
        truth = scaled(picture.boxes, pixels, image.shape[-1])
        for count, hits in found.items():
            hits.extend(covered(truth, boxes[:count].cpu().numpy()).tolist())
    return {f"recall_{count}": float(np.mean(hits or [False])) for count, hits in found.items()}


def build_network(options: DetectorOptions) -> RegionNetwork:
    """The network with pretrained weights; those of its first stages will not change."""
    backbone = pretrained_backbone(options)
    config = RegionConfig(options.channels, options.strides, options.anchor_sizes)
    return RegionNetwork(backbone, config)


def scaled(boxes: np.ndarray, pixels: np.ndarray, size: int) -> np.ndarray:
    """Boxes of a picture in the square that it is squeezed into."""
    height, width = pixels.shape[:2]
    return boxes * np.array([size / width, size / height] * 2, np.float32)


_log = logging.getLogger(__name__)


def run_train_detector(options: DetectorOptions, run: Run) -> dict[str, Any]:
    """Train, and write the checkpoint into `<out>/checkpoint`."""
    everything = options.pictures()
    wanted = without_classes(everything, options.leave_out)
    if not wanted:
        raise DataError(f"every picture of {options.data} shows a class of --leave-out")
    pictures, corrupt = sound_pictures(wanted, Path(options.data), strict=options.strict)
    require_same_data(Path(options.data), map(fingerprint, pictures), run)
    task = DetectorTask(pictures, options, run)
    metrics = train(task, options, run)
    if run.process_group.is_main_process:
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
