# SPDX-License-Identifier: Apache-2.0
"""Training a classifier on labelled images of its source domains."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.augmentation import Augmentation
from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.errors import ConfigError
from newfound_core.preprocessing import Preprocessing, default_preprocessing
from newfound_training.data import Pixels
from newfound_training.data.batches import Shuffled, image_generator, share_of
from newfound_training.data.splits import split
from newfound_training.running.confusion import confusion
from newfound_training.running.run import Run
from newfound_training.running.training import Task
from newfound_training.source.options import SourceOptions


class Batch(NamedTuple):
    """Images and what is known of them."""

    images: Tensor  # [N, 3, H, W]
    labels: Tensor  # [N]


class SourceTask(Task):
    """Cross entropy on the source; accuracy on the part of it that is held out."""

    def __init__(self, pixels: Pixels, options: SourceOptions, run: Run) -> None:
        torch.manual_seed(run.seed)  # the classifier starts from random values
        self._pixels, self._run = pixels, run
        prepared = default_preprocessing(options.backbone, options.image_size)
        self.preprocessing = replace(prepared, resize=options.resize)
        self._augmentation = augmentation(options)
        self.training_set, self.validation_set = split(
            pixels.images.labels, options.validation_share, run.seed, pixels.images.groups
        )
        self._order = Shuffled(len(self.training_set), options.batch_size, run.seed)
        self.model = build_classifier(options, len(pixels.images.class_names))
        self.model.to(run.device).to(memory_format=torch.channels_last)
        self.validation_confusion: np.ndarray | None = None  # known once evaluated

    def batch(self, step: int) -> Batch:
        """Random variants of this process's share of the step's images."""
        places = np.arange(self._order.batch_size)
        places = share_of(places, self._run.team.rank, self._run.team.processes)
        chosen = self.training_set[self._order(step)[places]]
        images = [
            self._augmentation(
                self._pixels[index],
                self.preprocessing,
                image_generator(self._run.seed, step, int(place)),
            )
            for index, place in zip(chosen, places, strict=True)
        ]
        labels = torch.from_numpy(self._pixels.images.labels[chosen])
        return Batch(torch.stack(images), labels)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Cross entropy."""
        logits = self.model(to_device(batch.images, self._run.device))
        return {"classes": functional.cross_entropy(logits, batch.labels.to(self._run.device))}

    def evaluate(self) -> dict[str, float]:
        """Accuracy on the held-out images of the source."""
        if not len(self.validation_set):
            return {}
        predicted = predict(
            self.model,
            self._pixels,
            self.validation_set,
            preprocessing=self.preprocessing,
            device=self._run.device,
        )
        images = self._pixels.images
        labels = images.labels[self.validation_set]
        self.validation_confusion = confusion(labels, predicted, len(images.class_names))
        return {"validation_accuracy": float((predicted == labels).mean())}


def build_classifier(options: SourceOptions, classes: int) -> Classifier:
    """The network with its pretrained weights; those of its first stages will not change."""
    weights = None if options.weights == "random" else options.weights
    backbone = build_backbone(options.backbone, weights, options.stages or None)
    parts: list[nn.Module] = [backbone.stem, *backbone.stages]
    if options.frozen_stages > len(parts):
        raise ConfigError(
            f"{options.backbone} has a stem and {len(parts) - 1} stages, so at most {len(parts)} "
            f"of them can be frozen, not {options.frozen_stages}"
        )
    for part in parts[: options.frozen_stages]:
        part.requires_grad_(False)
    return Classifier(backbone, classes, output_norm=options.output_norm)


def augmentation(options: SourceOptions) -> Augmentation:
    """Random variants of training images, as the options ask for."""
    low, high = options.crop_area
    jitter = options.colour_jitter
    return Augmentation((low, high), brightness=jitter, contrast=jitter, saturation=jitter)


@torch.no_grad()
def predict(
    model: nn.Module,
    pixels: Pixels,
    indices: np.ndarray,
    *,
    preprocessing: Preprocessing,
    device: torch.device,
    batch_size: int = 50,
) -> np.ndarray:
    """The predicted class of each image, by a model in evaluation mode."""
    parts = []
    for start in range(0, len(indices), batch_size):
        images = preprocessing.batch([pixels[i] for i in indices[start : start + batch_size]])
        parts.append(model(to_device(images, device)).argmax(1).cpu().numpy())
    return np.concatenate(parts)


def to_device(images: Tensor, device: torch.device) -> Tensor:
    """Images where and how the network computes fastest."""
    return images.to(device, memory_format=torch.channels_last, non_blocking=True)
