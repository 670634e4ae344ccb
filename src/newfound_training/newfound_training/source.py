# SPDX-License-Identifier: Apache-2.0
"""`train_source`: a classifier trained on one or more domains, which ONDA then adapts."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.augmentation import Augmentation
from newfound_core.classifier import Classifier
from newfound_core.errors import ConfigError
from newfound_core.models import save_model, write_model_card
from newfound_core.preprocessing import Preprocessing, default_preprocessing
from newfound_training.data import Pixels, load_pixels, open_images
from newfound_training.data.sampling import Shuffled, split
from newfound_training.online.layers import LayerChoice, choose_layers
from newfound_training.running.command import Command, Run, require_same_images
from newfound_training.running.figures import confusion, draw_confusions
from newfound_training.running.options import CommonOptions, option
from newfound_training.running.training import (
    Task,
    TrainingOptions,
    pretrained_backbone,
    step_samples,
    train,
)


@dataclass(frozen=True)
class SourceOptions(TrainingOptions, CommonOptions):
    """A backbone with pretrained weights, fine-tuned on the images of its source domains."""

    domains: tuple[str, ...] = option((), "domains to train on; all if none is named")
    backbone: str = option("efficientnet_lite0", "network; see newfound_core.backbones")
    weights: str = option("imagenet", "imagenet, a file of tensors, or random")
    stages: int = option(0, "keep only so many stages of the network: smaller, faster; 0 is all")
    image_size: int = option(128, "pixels")
    resize: Literal["squash", "short_side_center_crop"] = option(
        "squash", "what the model does with images that are not square: all of it, or the middle"
    )
    output_norm: bool = option(False, "also normalise the logits, as the thesis's AlexNet does")
    frozen_stages: int = option(4, "stem and stages whose weights stay; their statistics follow")
    validation_share: float = option(0.1, "of every class, held out to measure accuracy")
    crop_area: tuple[float, ...] = option((0.6, 1.0), "random crops, smallest and largest share")
    colour_jitter: float = option(0.2, "random brightness, contrast and saturation")
    choice_images: int = option(
        150, "held-out images on which the layers that ONDA adapts are chosen; 0: all layers"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.crop_area) != 2:
            raise ConfigError(f"crop_area must be two numbers, got {self.crop_area}")
        if self.choice_images < 0:
            raise ConfigError(f"choice_images must not be negative, got {self.choice_images}")
        if self.frozen_stages < 0:
            raise ConfigError(f"frozen_stages must not be negative, got {self.frozen_stages}")


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
        positions, generators = step_samples(self._run, step, self._order.batch_size)
        chosen = self.training_set[self._order(step)[positions]]
        images = [
            self._augmentation(self._pixels[index], self.preprocessing, generator)
            for index, generator in zip(chosen, generators, strict=True)
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
    backbone = pretrained_backbone(options)
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


_log = logging.getLogger(__name__)


def run_train_source(options: SourceOptions, run: Run) -> dict[str, Any]:
    """Train, and write the checkpoint into `<out>/checkpoint`."""
    pixels = source_pixels(options, run)
    return train_on(pixels, options, run)


def source_pixels(options: SourceOptions, run: Run) -> Pixels:
    """The images of the source domains; one process decodes, the others wait."""
    images = open_images(options.data, options.layout)
    domains = options.domains or images.domain_names
    images.require_every_class(domains)
    with run.process_group.main_process_first():
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
    """Train on all of the images and write the checkpoint."""
    task = SourceTask(pixels, options, run)
    metrics = train(task, options, run)
    choice = LayerChoice("all")
    if run.process_group.is_main_process:
        choice = _choose(task, pixels, options, run)
        assert isinstance(task.model, Classifier)
        choice.apply_to(task.model)
        _save(task, pixels, options, metrics, run)
    return {
        "checkpoint": "checkpoint",
        "classes": list(pixels.images.class_names),
        "training_images": len(task.training_set),
        "validation_images": len(task.validation_set),
        "corrupt_images": list(pixels.corrupt),
        **choice.facts(),
        **metrics,
    }


def _choose(task: SourceTask, pixels: Pixels, options: SourceOptions, run: Run) -> LayerChoice:
    """Choose the layers that ONDA adapts, on some of the held-out images."""
    chosen = np.random.default_rng([run.seed, 9]).permutation(task.validation_set)
    chosen = chosen[: options.choice_images]
    return choose_layers(
        task.model.eval(),
        [pixels[index] for index in chosen],
        pixels.images.labels[chosen],
        task.preprocessing,
        device=run.device,
        seed=run.seed,
    )


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
        "adaptive_layers, source_confidence": "what ONDA is told: layers to adapt, mean "
        "probability of the\n      answers on held-out images (null: not measured)",
        "validation_accuracy": "share of the held-out images recognised, 0 to 1",
    },
)
