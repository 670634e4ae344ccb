# SPDX-License-Identifier: Apache-2.0
"""From samples to network inputs, plain or varied, in batches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from newfound_core.open_world.memory import Sample

Prepare = Callable[[np.ndarray], Tensor]  # uint8 [H, W, 3] RGB to network input [3, H, W]
Vary = Callable[[np.ndarray, np.random.Generator], Tensor]  # the same, at random


@dataclass(frozen=True)
class Inputs:
    """How images enter the network: the preprocessing, and the variations of training."""

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
