# SPDX-License-Identifier: Apache-2.0
"""The training loop: any method, resumable after any moment, alone or in a team of processes."""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from tqdm import tqdm

from newfound_core.errors import ConfigError, TrainingError
from newfound_core.precision import autocast
from newfound_training.running.distributed import share_statistics
from newfound_training.running.log import TrainingLog
from newfound_training.running.options import RunOptions, option
from newfound_training.running.run import Run
from newfound_training.running.schedule import learning_rate_factor
from newfound_training.running.state import STATE_NAME, load_state, save_state

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingOptions(RunOptions):
    """How long and how fast a network is trained; every training command has these."""

    iterations: int = option(200, "number of steps")
    batch_size: int = option(32, "images per step, over all processes together")
    lr: float = option(0.01, "learning rate of pretrained layers")
    new_lr: float = option(0.1, "learning rate of layers that start from random values")
    momentum: float = option(0.9, "of stochastic gradient descent")
    weight_decay: float = option(5e-4, "pulls weights towards nil")
    schedule: Literal["constant", "step", "cosine"] = option("cosine", "of the learning rate")
    drop_at: float = option(0.9, "with --schedule step: share of the steps before the drop")
    warmup: int = option(0, "steps over which the learning rate rises")
    precision: Literal["float32", "bfloat16"] = option(
        "float32", "bfloat16 computes in mixed precision, faster on recent GPUs"
    )
    save_every: int = option(25, "steps between two saved states to resume from")

    def __post_init__(self) -> None:
        for name in ("iterations", "batch_size", "save_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("lr", "new_lr", "momentum", "weight_decay", "warmup"):
            require_not_negative(name, getattr(self, name))
        if not 0 <= self.drop_at <= 1:
            raise ConfigError(f"drop_at must be a share in [0, 1], got {self.drop_at}")


def require_not_negative(name: str, value: float) -> None:
    """A ConfigError for a rate or a number that is negative or infinite."""
    if not 0 <= value < math.inf:
        raise ConfigError(f"{name} must not be negative or infinite, got {value}")


class Task(ABC):
    """A method's part in training: the batch of a step, and two verbs, `loss` and `evaluate`."""

    model: nn.Module

    @abstractmethod
    def batch(self, step: int) -> Any:
        """This process's share of a step's batch: a function of seed and step alone."""

    @abstractmethod
    def loss(self, batch: Any) -> dict[str, Tensor]:
        """Terms by name, each a mean over the share; training lowers their sum."""

    @abstractmethod
    def evaluate(self) -> dict[str, float]:
        """How good the model is on held-out images."""

    def parameter_groups(self, lr: float, new_lr: float) -> list[dict[str, Any]]:
        """What the optimiser trains: the backbone at `lr`, the rest at `new_lr`."""
        old: list[nn.Parameter] = []
        new: list[nn.Parameter] = []
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                (old if name.startswith("backbone.") else new).append(parameter)
        groups: list[dict[str, Any]] = [{"params": old, "lr": lr}, {"params": new, "lr": new_lr}]
        return [group for group in groups if group["params"]]


def train(task: Task, options: TrainingOptions, run: Run) -> dict[str, float]:
    """Trains until the last step, from a saved state if there is one, and evaluates."""
    torch.backends.cudnn.deterministic = True  # the same steps must give the same weights
    share_statistics(task.model, run.team)
    optimizer = SGD(
        task.parameter_groups(options.lr, options.new_lr),
        momentum=options.momentum,
        weight_decay=options.weight_decay,
    )
    rates = [group["lr"] for group in optimizer.param_groups]
    done = _resume(task, optimizer, run)
    with TrainingLog(run, done) as log:
        for step, batch in _batches(task, done, options.iterations, run):
            factor = learning_rate_factor(
                options.schedule,
                step,
                options.iterations,
                warmup=options.warmup,
                drop_at=options.drop_at,
            )
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            terms = _step(task, batch, optimizer, step=step, options=options, run=run)
            losses = run.team.mean(terms)
            _require_finite_loss(losses, step)
            log.scalars("train", losses | {"lr": rates[0] * factor}, step)
            if (step + 1) % options.save_every == 0 or step + 1 == options.iterations:
                _save(task, optimizer, step + 1, run)
        _require_finite_weights(task.model)
        task.model.eval()
        metrics = task.evaluate()
        log.scalars("evaluation", metrics, options.iterations)
    return metrics


def _step(
    task: Task,
    batch: Any,
    optimizer: Optimizer,
    *,
    step: int,
    options: TrainingOptions,
    run: Run,
) -> dict[str, Tensor]:
    """One update; the terms of the loss, as this process's part of their mean."""
    torch.manual_seed(step_seed(run.seed, step, run.team.rank))
    with autocast(options.precision, run.device):
        terms = {k: v / run.team.processes for k, v in task.loss(batch).items()}
        total = torch.stack(list(terms.values())).sum()
    optimizer.zero_grad(set_to_none=True)
    total.backward()
    run.team.sum_gradients(p for g in optimizer.param_groups for p in g["params"])
    optimizer.step()
    return {k: v.detach() for k, v in terms.items()}


def _require_finite_loss(losses: Mapping[str, float], step: int) -> None:
    """A TrainingError at the first step whose loss is no number, in all processes alike."""
    if not math.isfinite(sum(losses.values())):
        terms = ", ".join(f"{name} {value:g}" for name, value in losses.items())
        raise TrainingError(
            f"the loss is no longer a finite number in step {step} ({terms}). Lower the learning "
            "rates, give a --warmup, or look for damaged data"
        )


def _require_finite_weights(model: nn.Module) -> None:
    """The same for what the last step made of the weights, which no loss has seen yet."""
    spoilt = [n for n, p in model.named_parameters() if not bool(p.isfinite().all())]
    if spoilt:
        raise TrainingError(
            f"{len(spoilt)} layers, {spoilt[0]} first, are no longer finite after the last step. "
            "Lower the learning rates, or give a --warmup"
        )


def step_seed(seed: int, step: int, rank: int) -> int:
    """The seed of dropout and the like in one step of one process."""
    return int(np.random.SeedSequence([seed, 4, step, rank]).generate_state(1)[0])


def _batches(task: Task, first: int, last: int, run: Run) -> Iterator[tuple[int, Any]]:
    """Batches with their step, the next one prepared while the present one is used."""
    if first >= last:
        return
    with ThreadPoolExecutor(1) as pool:
        task.model.train()
        pending = pool.submit(task.batch, first)
        hidden = None if run.team.leads else True
        for step in tqdm(range(first, last), "training", last, initial=first, disable=hidden):
            batch = pending.result()
            if step + 1 < last:
                pending = pool.submit(task.batch, step + 1)
            yield step, batch


def _resume(task: Task, optimizer: Optimizer, run: Run) -> int:
    path = run.out / STATE_NAME
    done = load_state(path, task.model, optimizer) if path.exists() else 0
    # Also a meeting point: nobody overwrites the file while another still reads it.
    found = run.team.values_of_all(done, run.device)
    if len(set(found)) > 1:
        raise ConfigError(
            f"the processes found saved states after {', '.join(map(str, found))} steps, by rank: "
            f"{run.out} must be one folder that all machines share"
        )
    if done and run.team.leads:
        _log.info("resuming after step %d", done)
    return done


def _save(task: Task, optimizer: Optimizer, done: int, run: Run) -> None:
    if run.team.leads:
        save_state(run.out / STATE_NAME, done, task.model, optimizer)
