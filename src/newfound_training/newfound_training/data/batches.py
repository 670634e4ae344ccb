# SPDX-License-Identifier: Apache-2.0
"""Which images make up which batch: a function of seed and step, with nothing to remember.

Because nothing is remembered, training can be resumed at any step, and several processes can
share a batch without talking to each other.
"""

from dataclasses import dataclass

import numpy as np

from newfound_core.errors import ConfigError, DataError


@dataclass(frozen=True)
class Shuffled:
    """Batches of a set in random order, epoch after epoch; a batch may span two epochs."""

    count: int
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise DataError("there are no images to make batches of")
        if self.batch_size < 1:
            raise ConfigError(f"batch_size must be positive, got {self.batch_size}")

    def __call__(self, step: int) -> np.ndarray:
        """Indices of the images in the batch of a step, counted from 0."""
        first = step * self.batch_size
        places = np.arange(first, first + self.batch_size)
        epochs, offsets = places // self.count, places % self.count
        orders = {epoch: self._order(int(epoch)) for epoch in np.unique(epochs)}
        return np.array([orders[e][o] for e, o in zip(epochs, offsets, strict=True)])

    def _order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self.seed, 2, epoch]).permutation(self.count)


def share_of(indices: np.ndarray, rank: int, processes: int) -> np.ndarray:
    """The part of a batch that one of several processes works on; the parts are equally large."""
    if len(indices) % processes:
        raise ConfigError(
            f"a batch of {len(indices)} images cannot be shared by {processes} processes equally: "
            "choose a batch_size that they divide"
        )
    return indices[rank::processes]


def image_generator(seed: int, step: int, place: int) -> np.random.Generator:
    """The randomness of one image in one batch, whichever process works on it."""
    return np.random.default_rng([seed, 3, step, place])
