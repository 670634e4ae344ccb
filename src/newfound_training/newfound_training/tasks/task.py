# SPDX-License-Identifier: Apache-2.0
"""Training one task: masks, k and normalisation by Adam, the head by gradient descent.

The head starts as a logistic regression on the base's features. With a random one the first
steps pull apart the features that it then learns from (A. Kumar et al., "Fine-Tuning can Distort
Pretrained Features and Underperform Out-of-Distribution", ICLR 2022, arXiv:2202.10054).
Normalisation keeps the base's statistics unless the task is to have its own: those of small
images in small batches differ so much from ImageNet's that features are lost. A task's own are
estimated anew after the last step, since running means lag behind weights that move.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import LBFGS, SGD, Adam, Optimizer

from newfound_core.augmentation import Augmentation
from newfound_core.backbones import Backbone, build_backbone
from newfound_core.classifier import Classifier
from newfound_core.places import PlaceClassifier
from newfound_core.preprocessing import default_preprocessing
from newfound_core.task_delta.checkpoint import Base
from newfound_core.task_delta.config import TaskDeltaConfig
from newfound_core.task_delta.layers import convert, norm_layers, set_training_mode
from newfound_training.data import Pixels
from newfound_training.data.sampling import Shuffled
from newfound_training.running.command import Run
from newfound_training.running.training import Task, TrainingOptions, step_samples
from newfound_training.source import to_device
from newfound_training.tasks.data import TaskData
from newfound_training.tasks.options import TaskTrainingOptions

_EVALUATED_AT_ONCE = 50
_STATISTICS_IMAGES = 512  # at most, behind the final statistics of normalisation
_HEAD_STEPS = 100  # of L-BFGS
_HEAD_DECAY = 1e-3  # of its squared weights


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
        *,
        trained_head: bool = False,
        own_statistics: bool = False,
    ) -> None:
        """With `trained_head` the model's own head is what training starts from.

        `own_statistics` is for fine-tuning; otherwise the config says it.
        """
        self.data, self.config, self._run = data, config, run
        self._trained_head = trained_head
        self._own_statistics = own_statistics if config is None else config.own_statistics
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
        set_training_mode(self.model, own_statistics=self._own_statistics)
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

    def before_training(self) -> None:
        """Let the head begin as a logistic regression on the base's features."""
        if not self._trained_head:
            head, backbone = self.model.classifier, self.model.backbone
            assert isinstance(head, nn.Linear)
            assert isinstance(backbone, nn.Module)
            self.model.eval()
            pixels = self.data.training
            with torch.no_grad():
                features = torch.cat([backbone(images) for images in self._images(pixels)])
            labels = torch.from_numpy(pixels.images.labels).to(self._run.device)
            fit_head(head, features, labels)

    @torch.no_grad()
    def after_training(self) -> None:
        """Estimate the statistics of normalisation anew, where they are the task's own."""
        if not self._own_statistics:
            return
        self.model.eval()
        norms: list[Any] = [norm for _, norm in norm_layers(self.model)]
        before = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean over all batches
            norm.train()
        count = min(len(self.data.training), _STATISTICS_IMAGES)
        chosen = np.random.default_rng(self._run.seed).permutation(len(self.data.training))[:count]
        for images in self._images(self.data.training.select(chosen)):
            self.model(images)
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum
        self.model.eval()

    def evaluate(self) -> dict[str, float]:
        """Accuracy on the held-out images."""
        held_out = self.data.held_out
        return {"accuracy": self.accuracy(held_out)} if len(held_out) else {}

    @torch.no_grad()
    def accuracy(self, pixels: Pixels) -> float:
        """The share of images that are recognised, by the model in evaluation mode."""
        self.model.eval()
        found = [logits_of(self.model, images).argmax(1).cpu() for images in self._images(pixels)]
        return float((torch.cat(found).numpy() == pixels.images.labels).mean())

    def _images(self, pixels: Pixels) -> Iterator[Tensor]:
        """Batches of about one size, as the model will be given them when it serves."""
        parts = -(-len(pixels) // _EVALUATED_AT_ONCE)
        for rows in np.array_split(np.arange(len(pixels)), parts):
            images = self.preprocessing.batch([pixels[i] for i in rows])
            yield to_device(images, self._run.device)


def fit_head(head: nn.Linear, features: Tensor, labels: Tensor) -> None:
    """Set a head to the logistic regression of labels [N] on features [N, D]."""
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    optimizer = LBFGS(head.parameters(), max_iter=_HEAD_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = functional.cross_entropy(head(features), labels)
        value = value + _HEAD_DECAY * head.weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    optimizer.zero_grad()


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
