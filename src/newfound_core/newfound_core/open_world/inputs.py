# SPDX-License-Identifier: Apache-2.0
"""From samples to network inputs, plain or varied, and to batches with a share of memory."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from newfound_core.errors import ConfigError
from newfound_core.open_world.memory import Sample

Prepare = Callable[[np.ndarray], Tensor]  # uint8 [H, W, 3] RGB to network input [3, H, W]
Vary = Callable[[np.ndarray, np.random.Generator], Tensor]  # the same, at random


@dataclass(frozen=True)
class Inputs:
    """Preprocessing of images, and their variations in training."""

    prepare: Prepare
    vary_training: Vary | None = None  # random crop and mirror
    vary_held_out: Vary | None = None  # colour jitter

    def batch(
        self,
        samples: Sequence[Sample],
        vary: Vary | None = None,
        generator: np.random.Generator | None = None,
    ) -> Tensor:
        """Return samples as one tensor [N, 3, H, W], varied if asked for."""
        images = (sample.pixels() for sample in samples)
        if vary is None or generator is None:
            return torch.stack([self.prepare(image) for image in images])
        return torch.stack([vary(image, generator) for image in images])


def chunks(samples: Sequence[Sample], size: int) -> Iterator[Sequence[Sample]]:
    """Yield the samples in order, so many at a time."""
    for start in range(0, len(samples), size):
        yield samples[start : start + size]


def class_indices(samples: Sequence[Sample], labels: Sequence[str]) -> Tensor:
    """Return the class index of each sample, [N]."""
    index = {label: position for position, label in enumerate(labels)}
    return torch.tensor([index[sample.label] for sample in samples], dtype=torch.int64)


class MemoryBatchSampler:
    """Index batches over new samples (0 to new - 1) followed by remembered ones (new to ...).

    An epoch shows each new sample once; the memory is shuffled and gone through as often as
    its share asks for. Batches are of even size, so that none is left with a single sample.
    Without new samples an epoch shows each remembered one once.
    """

    def __init__(
        self, new: int, memory: int, *, batch_size: int, memory_share: float = 0.4, seed: int = 0
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, got {batch_size}")
        if not 0 <= memory_share < 1:
            raise ConfigError(f"memory_share must be in [0, 1), got {memory_share}")
        self._new, self._memory, self._seed = new, memory, seed
        from_memory = round(memory_share * batch_size) if new and memory else 0
        self._from_new = max(1, batch_size - from_memory)
        self._ratio = (batch_size - self._from_new) / self._from_new

    def __len__(self) -> int:
        """Batches per epoch."""
        return math.ceil((self._new or self._memory) / self._from_new)

    def batches(self, epoch: int) -> Iterator[list[int]]:
        """Yield the batches of an epoch; the same epoch and seed give the same ones."""
        generator = np.random.default_rng([self._seed, epoch])
        shown = self._new or self._memory
        if not shown:
            return
        order = generator.permutation(shown)
        remembered = self._remembered(generator)
        for part in np.array_split(order, len(self)):
            rest = [next(remembered) for _ in range(round(len(part) * self._ratio))]
            yield part.tolist() + rest

    def _remembered(self, generator: np.random.Generator) -> Iterator[int]:
        while True:
            yield from (self._new + generator.permutation(self._memory)).tolist()
