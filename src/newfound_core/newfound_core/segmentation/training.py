# SPDX-License-Identifier: Apache-2.0
"""One step of incremental segmentation: FT, LwF, MiB and what lies between, resumable.

    L = cross entropy + lambda distillation           arXiv:2002.00718, equation 2

The thesis prints lambda = 10 to 100 for losses that its code divides by the number of old
classes; here nothing is divided, and the default is 1.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from newfound_core.errors import ConfigError, DataError, TrainingError
from newfound_core.frozen_features import frozen_parts
from newfound_core.resume import load_training, save_training
from newfound_core.segmentation import UNLABELLED
from newfound_core.segmentation.growth import Start, with_classes
from newfound_core.segmentation.losses import (
    enlarged,
    plain_distillation,
    unbiased_cross_entropy,
    unbiased_distillation,
)
from newfound_core.segmentation.network import SegmentationNetwork
from newfound_core.segmentation.samples import Samples


@dataclass(frozen=True)
class Rule:
    """A way to learn new classes: which losses know of the background, and the start."""

    unbiased_labels: bool  # the cross entropy knows that background may be an old class
    distillation: Literal["none", "plain", "unbiased"]
    start: Start


RULES = {
    "ft": Rule(False, "none", "random"),  # fine-tuning
    "lwf": Rule(False, "plain", "random"),  # learning without forgetting
    "ce": Rule(True, "plain", "random"),  # LwF with the cross entropy of MiB
    "kd": Rule(True, "unbiased", "random"),  # and its distillation
    "mib": Rule(True, "unbiased", "background"),  # and its start
}


@dataclass(frozen=True)
class TrainingConfig:
    """Length, speed and losses of a step."""

    iterations: int = 400
    batch_size: int = 12
    learning_rate: float = 1e-3  # of the backbone
    head_factor: float = 3.0  # times as fast the head
    weight_decay: float = 1e-4
    optimizer: Literal["adamw", "sgd"] = "adamw"
    frozen: int = 7  # stem and stages that never learn: all but the last of EfficientNet-Lite0
    statistics: Literal["batch", "fixed"] = "batch"  # of normalisation, in the layers that learn
    rule: str = "mib"
    distillation: float = 1.0  # lambda
    distil_labelled: bool = True  # distil also where the label is a new class
    balance: float = 0.0  # pixels weigh as their class's share of all to minus this power
    power: float = 0.9  # of the polynomial schedule of the learning rate
    save_every: int = 50  # steps between two states to resume from
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ConfigError(f"rule must be one of {', '.join(RULES)}, got {self.rule!r}")
        for name in ("iterations", "batch_size", "save_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in (
            "learning_rate",
            "head_factor",
            "weight_decay",
            "frozen",
            "distillation",
            "power",
            "balance",
        ):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must not be negative, got {getattr(self, name)}")


def learn_step(
    before: SegmentationNetwork,
    samples: Samples,
    table: np.ndarray,
    new_classes: int,
    config: TrainingConfig,
    *,
    state: Path | None = None,
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> SegmentationNetwork:
    """A network with new classes, learned from samples whose labels `table` maps to its own.

    Labels of a step are its new classes and the background. `before` stays as it is.
    """
    present = np.unique(table[samples.labels])
    _check_step(present, before.classes, before.classes + new_classes)
    torch.manual_seed(config.seed)
    rule = RULES[config.rule]
    grown = with_classes(before, new_classes, rule.start)
    return fit(grown, samples, table, config, before=before, state=state, on_step=on_step)


def _check_step(present: np.ndarray, old: int, classes: int) -> None:
    missing = sorted(set(range(old, classes)) - set(present.tolist()))
    if missing:
        raise DataError(
            f"no pixel shows the new class number {missing[0]}: every new class needs some that "
            "are left when its labels are reduced to the network's size"
        )
    if not set(range(old)) & set(present.tolist()):
        raise DataError(
            "no pixel is labelled background: what is known is kept by what is not the new class. "
            "Give images that also show something else, and label it 0"
        )


def fit(
    network: SegmentationNetwork,
    samples: Samples,
    table: np.ndarray,
    config: TrainingConfig,
    *,
    before: SegmentationNetwork | None = None,
    state: Path | None = None,
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> SegmentationNetwork:
    """Train a network in place; with `before` it keeps what that one knows.

    Interrupted and called again with the same `state`, it ends with the same weights.
    """
    if samples.frozen != config.frozen:
        raise ConfigError(f"samples have {samples.frozen} frozen parts, not {config.frozen}")
    optimizer, rates = _optimizer(network, config)
    done = load_training(state, network, optimizer) if state and state.exists() else 0
    step = _Step(network, samples, table, config, before)
    for number in range(done, config.iterations):
        factor = (1 - number / config.iterations) ** config.power
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        _set_mode(network, config)
        loss = step.loss(number)
        if not math.isfinite(loss.item()):
            raise TrainingError(
                f"the loss is no longer a finite number in step {number}: lower the learning rate"
            )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if state is not None and (number + 1) % config.save_every == 0:
            save_training(state, number + 1, network, optimizer)
        on_step(number + 1, config.iterations)
    return network.eval()


class _Step:
    """The loss of a step, a function of its number."""

    def __init__(
        self,
        network: SegmentationNetwork,
        samples: Samples,
        table: np.ndarray,
        config: TrainingConfig,
        before: SegmentationNetwork | None,
    ) -> None:
        self._network, self._samples, self._config = network, samples, config
        self._table, self._device = table, next(network.parameters()).device
        self._rule = RULES[config.rule]
        self._old = 1 if before is None else before.classes
        self._weights: Tensor | None = None  # of a pixel, by its label
        if config.balance:
            shares = _shares(samples, table, network.classes)
            self._weights = class_weights(shares, config.balance).to(self._device)
        self._known: np.ndarray | None = None  # logits of the old network
        if before is not None and self._rule.distillation != "none" and config.distillation:
            self._known = _logits(before, samples, self._device)

    def loss(self, number: int) -> Tensor:
        """Cross entropy and distillation of a random batch."""
        generator = np.random.default_rng([self._config.seed, 8, number])
        count = min(self._config.batch_size, len(self._samples))
        images = generator.choice(len(self._samples), count, replace=False)
        variants = generator.integers(self._samples.variants, size=count)
        maps = self._samples.batch(images, variants, self._device)
        labels = torch.from_numpy(self._table[self._samples.labels[images, variants]])
        labels = labels.to(self._device)
        size = (labels.shape[1], labels.shape[2])
        logits = enlarged(self._network.finish(maps, self._config.frozen), size)
        old = self._old if self._rule.unbiased_labels else 1
        if self._old > 1 and old == 1:  # earlier classes are background in a step's labels
            earlier = (labels > 0) & (labels < self._old)
            labels = torch.where(earlier, torch.zeros_like(labels), labels)
        loss = unbiased_cross_entropy(logits, labels, old, self._weights)
        if self._known is None:
            return loss
        known = torch.from_numpy(self._known[images, variants].astype(np.float32))
        known = enlarged(known.to(self._device), size)
        return loss + self._config.distillation * self._distillation(logits, known, labels)

    def _distillation(self, logits: Tensor, known: Tensor, labels: Tensor) -> Tensor:
        counted = None
        if not self._config.distil_labelled:
            counted = (labels < self._old) | (labels == UNLABELLED)
        if self._rule.distillation == "plain":
            return plain_distillation(logits, known, counted)
        return unbiased_distillation(logits, known, counted)


def class_weights(shares: np.ndarray, power: float) -> Tensor:
    """Weights in proportion to a class's share of the pixels to minus a power, 1 on average."""
    present = shares > 0
    if not present.any():  # no pixel counts, and none may make the loss NaN
        return torch.ones(len(shares))
    weights = np.where(present, np.where(present, shares, 1.0) ** -power, 0.0)
    return torch.from_numpy(weights / (weights * shares).sum()).float()


def _shares(samples: Samples, table: np.ndarray, classes: int) -> np.ndarray:
    """The share of each class in the labelled pixels."""
    counts = np.bincount(table[samples.labels].ravel(), minlength=256)[:classes]
    return counts / max(1, counts.sum())


@torch.no_grad()
def _logits(network: SegmentationNetwork, samples: Samples, device: torch.device) -> np.ndarray:
    """The old network's logits of all samples and variants, float16 at its own stride."""
    network = copy.deepcopy(network).to(device).eval()
    found = []
    for number in range(len(samples)):
        every = np.arange(samples.variants)
        maps = samples.batch(np.full_like(every, number), every, device)
        found.append(network.finish(maps, samples.frozen).half().cpu().numpy())
    return np.stack(found)


def _optimizer(
    network: SegmentationNetwork, config: TrainingConfig
) -> tuple[Optimizer, list[float]]:
    network.requires_grad_(True)
    for part in frozen_parts(network.backbone, config.frozen):
        part.requires_grad_(False)
    trunk = [p for p in network.backbone.parameters() if p.requires_grad]
    head = [p for n, p in network.named_parameters() if not n.startswith("backbone.")]
    rate = config.learning_rate
    groups = [{"params": trunk, "lr": rate}, {"params": head, "lr": config.head_factor * rate}]
    groups = [group for group in groups if group["params"]]
    optimizer: Optimizer
    if config.optimizer == "sgd":
        optimizer = SGD(groups, momentum=0.9, nesterov=True, weight_decay=config.weight_decay)
    else:
        optimizer = AdamW(groups, weight_decay=config.weight_decay)
    return optimizer, [group["lr"] for group in optimizer.param_groups]


def _set_mode(network: SegmentationNetwork, config: TrainingConfig) -> None:
    network.train()
    for part in frozen_parts(network.backbone, config.frozen):
        part.eval()
    if config.statistics == "fixed":
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
