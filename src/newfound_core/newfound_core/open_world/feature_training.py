# SPDX-License-Identifier: Apache-2.0
"""The training loop of a step: the network learns, means and threshold follow.

Only the named parts of a network train; the part in front of them can be cut off and cached.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.backbones import Backbone
from newfound_core.errors import CheckpointError, ConfigError, TrainingError
from newfound_core.open_world.inputs import Inputs, MemoryBatchSampler, chunks, class_indices
from newfound_core.open_world.memory import Sample
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.step_config import EpochState, Hooks, Progress, StepConfig
from newfound_core.optimization import ProcessGroup, autocast, backward
from newfound_core.resume import model_tensors, restore_optimizer, training_tensors


def set_trainable(network: nn.Module, parts: Sequence[str] | None) -> list[nn.Parameter]:
    """Let only the named submodules train (all if None) and return their parameters."""
    network.requires_grad_(parts is None)
    for part in parts or ():
        _submodule(network, part).requires_grad_(True)
    return [parameter for parameter in network.parameters() if parameter.requires_grad]


def train_mode(
    network: nn.Module, parts: Sequence[str] | None, *, batch_statistics: bool = True
) -> None:
    """Put the trainable submodules in training mode; all others keep their statistics.

    Without `batch_statistics` batch normalisation keeps them everywhere.
    """
    network.train(parts is None)
    for part in parts or ():
        _submodule(network, part).train()
    if not batch_statistics:
        for module in network.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()


def split(network: nn.Module) -> tuple[nn.Sequential, nn.Sequential]:
    """Cut a network into a frozen trunk, as long as possible, and the rest.

    A `Backbone` is cut between its stages; any other network is all trunk if nothing of it
    trains, else all rest.
    """
    parts = [network]
    if isinstance(network, Backbone):
        parts = [network.stem, *network.stages, network.head]
    trains = [any(p.requires_grad for p in part.parameters()) for part in parts]
    cut = trains.index(True) if any(trains) else len(parts)
    return nn.Sequential(*parts[:cut]), nn.Sequential(*parts[cut:])


def _submodule(network: nn.Module, name: str) -> nn.Module:
    try:
        return network.get_submodule(name)
    except AttributeError as error:
        known = ", ".join(name for name, _ in network.named_children())
        raise ConfigError(
            f"the network has no part named {name!r}; its main parts are {known}"
        ) from error


@dataclass(frozen=True)
class StepData:
    """Samples of a step that are trained on, the new ones first."""

    new: Sequence[Sample]
    remembered: Sequence[Sample]
    inputs: Inputs
    labels: Sequence[str]  # of all classes

    @property
    def samples(self) -> list[Sample]:
        """Return new and remembered samples, in this order."""
        return [*self.new, *self.remembered]


def train_features(
    model: OpenWorldModel,
    old_model: OpenWorldModel | None,
    data: StepData,
    config: StepConfig,
    *,
    hooks: Hooks,
    resume: EpochState | None = None,
    process_group: ProcessGroup | None = None,
) -> None:
    """Train the network of `model` in place; `old_model` is what distillation holds it to."""
    parameters = set_trainable(model.backbone, config.trainable)
    optimizer = torch.optim.SGD(
        parameters,
        lr=config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
    )
    sampler = MemoryBatchSampler(
        len(data.new),
        len(data.remembered),
        batch_size=config.batch_size,
        memory_share=config.memory_share,
        seed=_seed(model, config),
    )
    process_group = process_group or ProcessGroup()
    batches = _TrainingBatches(model, old_model, data, config, process_group)
    start = _restore(resume, model, optimizer) if resume else 0
    for epoch in range(start, config.epochs):
        for group in optimizer.param_groups:
            group["lr"] = config.rate(epoch)
        train_mode(model.backbone, config.trainable, batch_statistics=config.batch_statistics)
        model.head.begin_epoch(epoch, config.epochs)
        with _own_randomness(_seed(model, config) + epoch, process_group.rank):
            losses = _train_epoch(
                model,
                optimizer,
                batches,
                sampler=sampler,
                epoch=epoch,
                config=config,
                hooks=hooks,
            )
        tensors = training_tensors(model, optimizer)
        hooks.on_epoch_end(EpochState(epoch + 1, tensors, losses))
    model.eval()


def _train_epoch(
    model: OpenWorldModel,
    optimizer: torch.optim.Optimizer,
    batches: "_TrainingBatches",
    *,
    sampler: MemoryBatchSampler,
    epoch: int,
    config: StepConfig,
    hooks: Hooks,
) -> dict[str, float]:
    generator = np.random.default_rng([_seed(model, config), epoch, 1])
    sums: dict[str, float] = {}
    for number, indices in enumerate(sampler.batches(epoch)):
        features, old_features, labels = batches.get(indices, generator)
        terms = model.head.loss(features, labels, old_features)
        losses = {name: float(term.detach()) for name, term in terms.items()}
        max_norm = float("inf") if config.clip_gradient is None else config.clip_gradient
        norm = backward(terms["total"], optimizer, batches.process_group, max_norm)
        _require_finite(losses, norm, epoch, config)
        optimizer.step()
        model.head.observe(features.detach(), labels)
        for name, value in losses.items():
            sums[name] = sums.get(name, 0.0) + value / len(sampler)
        done = epoch * len(sampler) + number + 1
        hooks.report(Progress("training", done, config.epochs * len(sampler), losses))
    return sums


def _require_finite(
    losses: dict[str, float], norm: Tensor, epoch: int, config: StepConfig
) -> None:
    """Raise TrainingError before a step would spread a NaN through the network."""
    if not np.isfinite(losses["total"]) or not norm.isfinite():
        raise TrainingError(
            f"the loss became {losses['total']} and the gradient's norm {float(norm)} in epoch "
            f"{epoch}. Lower learning_rate ({config.learning_rate}), set clip_gradient, or look "
            "for damaged images."
        )


class _TrainingBatches:
    """Features of samples, with a gradient, and those of the old network."""

    def __init__(
        self,
        model: OpenWorldModel,
        old_model: OpenWorldModel | None,
        data: StepData,
        config: StepConfig,
        process_group: ProcessGroup,
    ) -> None:
        self._model, self._old_model, self._data = model, old_model, data
        self._precision, self.process_group = config.precision, process_group
        self._device = next(model.backbone.parameters()).device
        self._samples = data.samples
        self._labels = class_indices(self._samples, data.labels).to(self._device)
        trunk, rest = split(model.backbone)
        self._cache = self._trunk_outputs(trunk, config) if config.cache_trunk else None
        self._network = model.backbone if self._cache is None else rest
        self._old_cache: Tensor | None = None
        if self._cache is not None and old_model is not None:
            self._old_cache = self._old_features(config)

    def get(
        self, indices: list[int], generator: np.random.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return features, old features if there is an old network, and class indices."""
        labels = self._labels[indices]
        if self._cache is not None:
            old = None if self._old_cache is None else self._old_cache[indices]
            return self.process_group.apply(self._embed, self._cache[indices]), old, labels
        samples, vary = [self._samples[i] for i in indices], self._data.inputs.vary_training
        # All images, in every process: what is drawn must not depend on the rank.
        images = self._data.inputs.batch(samples, vary, generator).to(self._device)
        old = None
        if self._old_model is not None:
            old = self.process_group.apply(self._embed_old, images)
        return self.process_group.apply(self._embed, images), old, labels

    def _embed(self, inputs: Tensor) -> Tensor:
        return self._model.shaped(self._computed(self._network, inputs))

    @torch.no_grad()
    def _embed_old(self, images: Tensor) -> Tensor:
        assert self._old_model is not None
        return self._old_model.shaped(self._computed(self._old_model.backbone, images))

    def _computed(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Mixed precision is for the network alone: losses and means get full numbers."""
        with autocast(self._precision, self._device):
            features = network(inputs)
        return features.to(torch.promote_types(features.dtype, torch.float32))

    @torch.no_grad()
    def _trunk_outputs(self, trunk: nn.Sequential, config: StepConfig) -> Tensor | None:
        if not len(trunk):
            return None
        trunk.eval()
        outputs: list[Tensor] = []
        for part in chunks(self._samples, config.batch_size):
            outputs.append(trunk(self._data.inputs.batch(part).to(self._device)))
            expected = outputs[-1].nbytes / len(part) * len(self._samples)
            if expected > config.cache_limit_mb * 2**20:
                return None
        return torch.cat(outputs)

    def _old_features(self, config: StepConfig) -> Tensor:
        parts = chunks(self._samples, config.batch_size)
        return torch.cat(
            [self._embed_old(self._data.inputs.batch(p).to(self._device)) for p in parts]
        )


def _seed(model: OpenWorldModel, config: StepConfig) -> int:
    return config.seed + 1_000_003 * model.head.steps


@contextmanager
def _own_randomness(seed: int, rank: int) -> Iterator[None]:
    """Make dropout and the like repeatable without touching the caller's random state.

    Each process draws other numbers for its share of a batch.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed + 1_000_000_007 * rank)
        yield


def _restore(resume: EpochState, model: OpenWorldModel, optimizer: torch.optim.Optimizer) -> int:
    try:
        model.load_tensors(model_tensors(resume.tensors))
    except CheckpointError as error:
        raise CheckpointError(f"this state is of another step or model: {error}") from error
    restore_optimizer(optimizer, resume.tensors)
    return resume.epochs_done
