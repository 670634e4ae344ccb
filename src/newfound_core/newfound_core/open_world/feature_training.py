# SPDX-License-Identifier: Apache-2.0
"""The training loop of a step: the network learns, means and threshold follow."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.errors import CheckpointError, TrainingError
from newfound_core.open_world.inputs import Inputs, chunks, class_indices
from newfound_core.open_world.memory import Sample
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.sampler import MemoryBatchSampler
from newfound_core.open_world.step_config import EpochState, Hooks, Progress, StepConfig
from newfound_core.open_world.trunk import set_trainable, split, train_mode

Embed = Callable[[Tensor], Tensor]


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
    batches = _TrainingBatches(model, old_model, data, config)
    start = _restore(resume, model, optimizer, parameters) if resume else 0
    for epoch in range(start, config.epochs):
        for group in optimizer.param_groups:
            group["lr"] = config.rate(epoch)
        train_mode(model.backbone, config.trainable, batch_statistics=config.batch_statistics)
        model.head.begin_epoch(epoch, config.epochs)
        with _own_randomness(_seed(model, config) + epoch):
            losses = _train_epoch(
                model,
                optimizer,
                batches,
                sampler=sampler,
                epoch=epoch,
                config=config,
                hooks=hooks,
            )
        tensors = _state(model, optimizer, parameters)
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
        optimizer.zero_grad()
        terms["total"].backward()
        _step(optimizer, losses, epoch, config)
        model.head.observe(features.detach(), labels)
        for name, value in losses.items():
            sums[name] = sums.get(name, 0.0) + value / len(sampler)
        done = epoch * len(sampler) + number + 1
        hooks.report(Progress("training", done, config.epochs * len(sampler), losses))
    return sums


def _step(
    optimizer: torch.optim.Optimizer, losses: dict[str, float], epoch: int, config: StepConfig
) -> None:
    """Take the optimiser's step, unless it would spread a NaN through the network."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    limit = config.clip_gradient if config.clip_gradient is not None else float("inf")
    norm = nn.utils.clip_grad_norm_(parameters, limit)
    if not np.isfinite(losses["total"]) or not norm.isfinite():
        raise TrainingError(
            f"the loss became {losses['total']} and the gradient's norm {float(norm)} in epoch "
            f"{epoch}. Lower learning_rate ({config.learning_rate}), set clip_gradient, or look "
            "for damaged images."
        )
    optimizer.step()


class _TrainingBatches:
    """Makes features of samples, with a gradient, and what the old network makes of them."""

    def __init__(
        self,
        model: OpenWorldModel,
        old_model: OpenWorldModel | None,
        data: StepData,
        config: StepConfig,
    ) -> None:
        self._model, self._old_model, self._data = model, old_model, data
        self._device = next(model.backbone.parameters()).device
        self._samples = data.samples
        self._labels = class_indices(self._samples, data.labels).to(self._device)
        self._trunk, self._rest = split(model.backbone)
        self._cache = self._trunk_outputs(config) if config.cache_trunk else None
        self._old_cache: Tensor | None = None
        if self._cache is not None and old_model is not None:
            self._old_cache = self._old_features(old_model, config)

    def get(
        self, indices: list[int], generator: np.random.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return features, old features if there is an old network, and class indices."""
        labels = self._labels[indices]
        if self._cache is not None:
            features = self._model.shaped(self._rest(self._cache[indices]))
            return features, None if self._old_cache is None else self._old_cache[indices], labels
        samples, vary = [self._samples[i] for i in indices], self._data.inputs.vary_training
        images = self._data.inputs.batch(samples, vary, generator).to(self._device)
        with torch.no_grad():
            old = None if self._old_model is None else self._old_model(images)
            trunk = self._trunk(images)
        return self._model.shaped(self._rest(trunk)), old, labels

    @torch.no_grad()
    def _trunk_outputs(self, config: StepConfig) -> Tensor | None:
        if not len(self._trunk):
            return None
        self._trunk.eval()
        outputs: list[Tensor] = []
        for part in chunks(self._samples, config.batch_size):
            outputs.append(self._trunk(self._data.inputs.batch(part).to(self._device)))
            expected = outputs[-1].nbytes / len(part) * len(self._samples)
            if expected > config.cache_limit_mb * 2**20:
                return None
        return torch.cat(outputs)

    @torch.no_grad()
    def _old_features(self, old_model: OpenWorldModel, config: StepConfig) -> Tensor:
        parts = chunks(self._samples, config.batch_size)
        return torch.cat([old_model(self._data.inputs.batch(p).to(self._device)) for p in parts])


def _seed(model: OpenWorldModel, config: StepConfig) -> int:
    return config.seed + 1_000_003 * model.head.steps


@contextmanager
def _own_randomness(seed: int) -> Iterator[None]:
    """Make dropout and the like repeatable without touching the caller's random state."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def _state(
    model: OpenWorldModel, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]
) -> dict[str, Tensor]:
    tensors = {f"model.{key}": value.clone() for key, value in model.state_dict().items()}
    for number, parameter in enumerate(parameters):
        buffer = optimizer.state[parameter].get("momentum_buffer")
        if buffer is not None:
            tensors[f"momentum.{number}"] = buffer.clone()
    return tensors


def _restore(
    resume: EpochState,
    model: OpenWorldModel,
    optimizer: torch.optim.Optimizer,
    parameters: list[nn.Parameter],
) -> int:
    own = {k.removeprefix("model."): v for k, v in resume.tensors.items() if k[:6] == "model."}
    try:
        model.load_tensors(own)
    except CheckpointError as error:
        raise CheckpointError(f"this state is of another step or model: {error}") from error
    for number, parameter in enumerate(parameters):
        buffer = resume.tensors.get(f"momentum.{number}")
        if buffer is not None:
            optimizer.state[parameter]["momentum_buffer"] = buffer.to(parameter.device).clone()
    return resume.epochs_done
