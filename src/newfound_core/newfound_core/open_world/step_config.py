# SPDX-License-Identifier: Apache-2.0
"""Options of a learning step, and what it reports while it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from torch import Tensor

from newfound_core.errors import ConfigError, NewfoundError
from newfound_core.optimization import Precision


class LearningCancelledError(NewfoundError):
    """The step was asked to stop; the model it started from is untouched."""


@dataclass(frozen=True)
class StepConfig:
    """Options of a step's training: the thesis's, but for the learning rate of DeepNNO (1.0)."""

    epochs: int = 12
    batch_size: int = 64
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-3
    decay_at: tuple[float, ...] = ()  # shares of the epochs after which the rate falls to a tenth
    clip_gradient: float | None = None  # largest norm of the gradient
    memory_share: float = 0.4  # of every batch
    trainable: tuple[str, ...] | None = None  # names of submodules; None: the whole network
    # False: batch normalisation keeps the statistics it has, those of the pretrained network,
    # instead of using and following those of small batches.
    batch_statistics: bool = True
    # Compute what the frozen trunk makes of each image once. Images are then not varied, and
    # if the results exceed the limit there is no cache.
    cache_trunk: bool = False
    cache_limit_mb: int = 512
    precision: Precision = "float32"  # of the network in training; means are always in float32
    seed: int = 0

    def __post_init__(self) -> None:
        for option in ("epochs", "learning_rate", "momentum", "weight_decay", "cache_limit_mb"):
            if not 0 <= getattr(self, option) < float("inf"):
                raise ConfigError(f"{option} must not be negative, got {getattr(self, option)}")
        if self.batch_size < 2:
            raise ConfigError(f"batch_size must be at least 2, got {self.batch_size}")
        if any(not 0 < share < 1 for share in self.decay_at):
            raise ConfigError(f"decay_at must hold shares in (0, 1), got {self.decay_at}")
        if self.clip_gradient is not None and self.clip_gradient <= 0:
            raise ConfigError(f"clip_gradient must be positive, got {self.clip_gradient}")
        if self.precision not in get_args(Precision):
            known = " or ".join(get_args(Precision))
            raise ConfigError(f"precision must be {known}, got {self.precision!r}")
        if not 0 <= self.memory_share < 1:
            raise ConfigError(f"memory_share must be in [0, 1), got {self.memory_share}")

    def rate(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0."""
        passed = sum(epoch >= share * self.epochs for share in self.decay_at)
        return self.learning_rate * 0.1**passed


@dataclass(frozen=True)
class Progress:
    """Progress of a step."""

    phase: str  # "training", "means" or "thresholds"
    done: int  # batches or epochs of the phase
    total: int
    losses: dict[str, float]  # of the last batch, in training


@dataclass(frozen=True)
class EpochState:
    """State after an epoch: hand it to `learn_step` as `resume` to go on from there."""

    epochs_done: int
    tensors: dict[str, Tensor]
    losses: dict[str, float]  # means over the epoch


@dataclass(frozen=True)
class Hooks:
    """Callbacks of a running step."""

    on_progress: Callable[[Progress], None] = lambda progress: None
    on_epoch_end: Callable[[EpochState], None] = lambda state: None
    should_stop: Callable[[], bool] = lambda: False  # asked before every batch

    def report(self, progress: Progress) -> None:
        """Tell the caller, and stop if it wants so."""
        if self.should_stop():
            raise LearningCancelledError(f"stopped in {progress.phase}, {progress.done} done")
        self.on_progress(progress)
