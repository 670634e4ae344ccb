# SPDX-License-Identifier: Apache-2.0
"""Training one task: masks, k and normalisation by Adam, the head by gradient descent."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, Optimizer

from newfound_core.augmentation import Augmentation
from newfound_core.backbones import Backbone, build_backbone
from newfound_core.classifier import Classifier
from newfound_core.places import PlaceClassifier
from newfound_core.preprocessing import default_preprocessing
from newfound_core.task_delta.checkpoint import Base
from newfound_core.task_delta.config import TaskDeltaConfig
from newfound_core.task_delta.layers import convert, set_training_mode
from newfound_training.data import Pixels
from newfound_training.data.sampling import Shuffled
from newfound_training.running.command import Run
from newfound_training.running.training import Task, TrainingOptions, step_samples
from newfound_training.source import to_device
from newfound_training.tasks.data import TaskData
from newfound_training.tasks.options import TaskTrainingOptions

_EVALUATED_AT_ONCE = 50


class Batch(NamedTuple):
    """Images and their classes."""

    images: Tensor  # [N, 3, H, W]
    labels: Tensor  # [N]


class AdamAndSgd(Optimizer):
    """Adam for parameter groups that ask for it (`adam`), gradient descent for the others.

    Both work on this optimiser's groups and state, so it is saved and resumed as one.
    """

    def __init__(self, groups: list[dict[str, Any]], momentum: float) -> None:
        super().__init__(groups, {})
        self._parts: list[Optimizer] = []
        for group in self.param_groups:
            part: Optimizer
            part = Adam([group]) if group["adam"] else SGD([group], momentum=momentum)
            part.state = self.state
            self._parts.append(part)

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take one step in all groups."""
        for part in self._parts:
            part.step()


class TaskTraining(Task):
    """Cross entropy on the task's images; accuracy on those held out.

    Without a `config` all of the network is fine-tuned.
    """

    def __init__(
        self,
        data: TaskData,
        model: nn.Module,
        config: TaskDeltaConfig | None,
        options: TaskTrainingOptions,
        run: Run,
    ) -> None:
        self.data, self.config, self._run = data, config, run
        self._augmentation = _augmentation(options)
        network = model.backbone
        assert isinstance(network, Backbone)
        self.preprocessing = default_preprocessing(network.name, options.image_size)
        self._order = Shuffled(len(data.training), options.batch_size, run.seed)
        self.model = model.to(run.device).to(memory_format=torch.channels_last)

    def batch(self, step: int) -> Batch:
        """Random variants of this process's share of the step's images."""
        positions, generators = step_samples(self._run, step, self._order.batch_size)
        chosen, pixels = self._order(step)[positions], self.data.training
        images = [
            self._augmentation(pixels[index], self.preprocessing, generator)
            for index, generator in zip(chosen, generators, strict=True)
        ]
        return Batch(torch.stack(images), torch.from_numpy(pixels.images.labels[chosen]))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Cross entropy."""
        if self.config is not None:
            backbone = self.model.backbone
            assert isinstance(backbone, nn.Module)
            set_training_mode(backbone, self.config)
        logits = logits_of(self.model, to_device(batch.images, self._run.device))
        return {"classes": functional.cross_entropy(logits, batch.labels.to(self._run.device))}

    def optimizer(self, options: TrainingOptions) -> Optimizer:
        """Adam for what belongs to the backbone, gradient descent for the head."""
        groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                groups[name.startswith("backbone.")].append(parameter)
        rates = {True: options.lr, False: options.new_lr}
        decay = {True: 0.0, False: options.weight_decay}
        return AdamAndSgd(
            [
                {"params": p, "adam": own, "lr": rates[own], "weight_decay": decay[own]}
                for own, p in groups.items()
                if p
            ],
            options.momentum,
        )

    def evaluate(self) -> dict[str, float]:
        """Accuracy on the held-out images."""
        held_out = self.data.held_out
        return {"accuracy": self.accuracy(held_out)} if len(held_out) else {}

    @torch.no_grad()
    def accuracy(self, pixels: Pixels) -> float:
        """The share of images that are recognised, by the model in evaluation mode."""
        self.model.eval()
        right = []
        for start in range(0, len(pixels), _EVALUATED_AT_ONCE):
            rows = range(start, min(start + _EVALUATED_AT_ONCE, len(pixels)))
            images = self.preprocessing.batch([pixels[i] for i in rows])
            found = logits_of(self.model, to_device(images, self._run.device)).argmax(1)
            right.append(found.cpu().numpy() == pixels.images.labels[list(rows)])
        return float(np.concatenate(right).mean())


def logits_of(model: nn.Module, images: Tensor) -> Tensor:
    """The logits of a classifier or a place classifier."""
    output = model(images)
    return output if isinstance(output, Tensor) else output.logits


def build_task_model(
    base: Base,
    options: TaskTrainingOptions,
    classes: int,
    *,
    places: bool = False,
    config: TaskDeltaConfig | None = None,
) -> Classifier | PlaceClassifier:
    """The base with a new head, prepared for training as the config says."""
    backbone = build_backbone(base.backbone.name, **base.backbone.options)
    backbone.load_state_dict({k: t.clone() for k, t in base.tensors.items()})
    if config is not None:
        convert(backbone, config, options.lr)
    return with_head(backbone, classes, places=places)


def with_head(backbone: Backbone, classes: int, *, places: bool) -> Classifier | PlaceClassifier:
    """A model of the node that will serve the task."""
    return PlaceClassifier(backbone, classes) if places else Classifier(backbone, classes)


def _augmentation(options: TaskTrainingOptions) -> Augmentation:
    low, high = options.crop_area
    jitter = options.colour_jitter
    return Augmentation(
        (low, high),
        brightness=jitter,
        contrast=jitter,
        saturation=jitter,
        mirror=0.5 * options.mirror,
    )
