# SPDX-License-Identifier: Apache-2.0
"""The training loop: any method, resumable at any step, in one process or several."""

import logging
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from tqdm import tqdm

from newfound_core.backbones import Backbone, build_backbone
from newfound_core.errors import ConfigError, TrainingError
from newfound_core.frozen_features import frozen_parts
from newfound_core.optimization import autocast, backward
from newfound_core.resume import STATE_NAME, load_training, save_training
from newfound_training.data.sampling import image_generator, share_of
from newfound_training.running.command import Run
from newfound_training.running.distributed import synchronize_batchnorm
from newfound_training.running.options import RunOptions, option

Schedule = Literal["constant", "step", "cosine"]


def learning_rate_factor(
    schedule: Schedule, step: int, steps: int, *, warmup: int = 0, drop_at: float = 0.9
) -> float:
    """Factor of the learning rates in a step.

    "step" divides by ten after the share `drop_at` of the steps, as the thesis does. "cosine"
    falls to zero along half a wave. Before, both rise linearly over `warmup` steps.
    """
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if schedule == "step":
        return 0.1 if step >= drop_at * steps else 1.0
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))
    return 1.0


class TrainingLog:
    """TensorBoard scalars; what an interrupted run logged from `first_step` on is discarded.

    With None everything is kept.
    """

    def __init__(self, run: Run, first_step: int | None) -> None:
        self._writer = None
        if run.process_group.is_main_process:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # its own dependencies warn about each other
                from torch.utils.tensorboard import SummaryWriter
            folder = str(run.out / "tensorboard")
            self._writer = SummaryWriter(folder, purge_step=first_step)

    def scalars(self, group: str, values: Mapping[str, float], step: int) -> None:
        """Add one value to the curve of each name."""
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(f"{group}/{name}", value, step)

    def __enter__(self) -> "TrainingLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingOptions(RunOptions):
    """Length and speed of a training; every training command has these."""

    iterations: int = option(200, "number of steps")
    batch_size: int = option(32, "images per step, over all processes together")
    lr: float = option(0.01, "learning rate of pretrained layers")
    new_lr: float = option(0.1, "learning rate of layers that start from random values")
    momentum: float = option(0.9, "of stochastic gradient descent")
    weight_decay: float = option(5e-4, "pulls weights towards zero")
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
        """Metrics on held-out images."""

    def before_training(self) -> None:  # noqa: B027  most start as they are built
        """Prepare the model for the first step; not called when a training is resumed."""

    def after_backward(self) -> None:  # noqa: B027  most take gradients as they are
        """Change the gradients of a step before the optimiser uses them."""

    def after_training(self) -> None:  # noqa: B027  most end with the last step
        """Complete the model after the last step, before it is evaluated."""

    def parameter_groups(self, lr: float, new_lr: float) -> list[dict[str, Any]]:
        """Parameter groups of the optimiser: the backbone at `lr`, the rest at `new_lr`."""
        old: list[nn.Parameter] = []
        new: list[nn.Parameter] = []
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                (old if name.startswith("backbone.") else new).append(parameter)
        groups: list[dict[str, Any]] = [{"params": old, "lr": lr}, {"params": new, "lr": new_lr}]
        return [group for group in groups if group["params"]]

    def optimizer(self, options: TrainingOptions) -> Optimizer:
        """The optimiser of the parameter groups, without any step done."""
        return SGD(
            self.parameter_groups(options.lr, options.new_lr),
            momentum=options.momentum,
            weight_decay=options.weight_decay,
        )


class BackboneOptions(Protocol):
    """Options that name a network and how much of it stays as pretrained."""

    @property
    def backbone(self) -> str:
        """Name of the network."""

    @property
    def weights(self) -> str:
        """`imagenet`, a file, or `random`."""

    @property
    def stages(self) -> int:
        """Number of stages kept; 0 is all."""

    @property
    def frozen_stages(self) -> int:
        """Stem and stages whose weights stay."""


def pretrained_backbone(options: BackboneOptions) -> Backbone:
    """Build the network that options name; the weights of its first stages will not change."""
    weights = None if options.weights == "random" else options.weights
    backbone = build_backbone(options.backbone, weights, options.stages or None)
    for part in frozen_parts(backbone, options.frozen_stages):
        part.requires_grad_(False)
    return backbone


def step_samples(
    run: Run, step: int, batch_size: int
) -> tuple[np.ndarray, list[np.random.Generator]]:
    """Return this process's positions in the batch of a step, and the randomness of each."""
    group = run.process_group
    positions = share_of(np.arange(batch_size), group.rank, group.world_size)
    return positions, [image_generator(run.seed, step, int(place)) for place in positions]


def train(task: Task, options: TrainingOptions, run: Run) -> dict[str, float]:
    """Train until the last step, from a saved state if there is one, and evaluate."""
    torch.backends.cudnn.deterministic = True  # the same steps must give the same weights
    synchronize_batchnorm(task.model, run.process_group, run.device)
    optimizer = task.optimizer(options)
    rates = [group["lr"] for group in optimizer.param_groups]
    done = _resume(task, optimizer, run)
    if not done:
        task.before_training()
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
            losses = run.process_group.sum_terms(terms)
            _require_finite_loss(losses, step)
            log.scalars("train", losses | {"lr": rates[0] * factor}, step)
            if (step + 1) % options.save_every == 0 or step + 1 == options.iterations:
                _save(task, optimizer, step + 1, run)
        _require_finite_weights(task.model)
        task.after_training()
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
    torch.manual_seed(step_seed(run.seed, step, run.process_group.rank))
    with autocast(options.precision, run.device):
        terms = {k: v / run.process_group.world_size for k, v in task.loss(batch).items()}
        total = torch.stack(list(terms.values())).sum()
    backward(total, optimizer, run.process_group)
    task.after_backward()
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
        hidden = None if run.process_group.is_main_process else True
        for step in tqdm(range(first, last), "training", last, initial=first, disable=hidden):
            batch = pending.result()
            if step + 1 < last:
                pending = pool.submit(task.batch, step + 1)
            yield step, batch


def _resume(task: Task, optimizer: Optimizer, run: Run) -> int:
    path = run.out / STATE_NAME
    done = load_training(path, task.model, optimizer) if path.exists() else 0
    # Also a barrier: the main process must not overwrite the file while another still reads it.
    found = run.process_group.all_gather(done, run.device)
    if len(set(found)) > 1:
        raise ConfigError(
            f"the processes found saved states after {', '.join(map(str, found))} steps, by rank: "
            f"{run.out} must be one folder that all machines share"
        )
    if done and run.process_group.is_main_process:
        _log.info("resuming after step %d", done)
    return done


def _save(task: Task, optimizer: Optimizer, done: int, run: Run) -> None:
    if run.process_group.is_main_process:
        save_training(run.out / STATE_NAME, done, task.model, optimizer)
