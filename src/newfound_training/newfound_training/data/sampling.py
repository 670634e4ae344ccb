# SPDX-License-Identifier: Apache-2.0
"""Which images are held out and which make up a batch: functions of seed and step.

Because nothing is remembered, training can be resumed at any step, and several processes can
share a batch without talking to each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from newfound_core.errors import ConfigError, DataError


def split(
    labels: np.ndarray, share: float, seed: int, groups: Sequence[str] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Indices to train on, and about a share of every class held out.

    Images of one group, as the frames of a video, stay on one side, whatever their class; those
    without a group are drawn one by one. Of a class that lies in two groups at least one is held
    out, if no other class loses all its images by that.
    """
    if not 0 <= share < 1:
        raise ConfigError(f"the share held out must be in [0, 1), got {share}")
    generator = np.random.default_rng([seed, 1])
    division = _Division(labels, _numbered(groups, len(labels)))
    for label in np.unique(labels) if share else ():
        division.hold_out(label, share, generator)
    return np.flatnonzero(~division.held_out), np.flatnonzero(division.held_out)


class _Division:
    """The images held out so far, group by group."""

    def __init__(self, labels: np.ndarray, groups: np.ndarray) -> None:
        self._labels, self._groups = labels, groups
        ends = np.cumsum(np.bincount(groups))
        self._members = np.split(np.argsort(groups, kind="stable"), ends[:-1])
        self._left = np.bincount(labels)  # images of each class to train on
        self.held_out = np.zeros(len(labels), dtype=bool)

    def hold_out(self, label: int, share: float, generator: np.random.Generator) -> None:
        """Draw groups as long as that brings a class nearer to its share."""
        own = self._labels == label
        already = (own & self.held_out).sum()
        groups, sizes = np.unique(self._groups[own & ~self.held_out], return_counts=True)
        missing = round(share * own.sum()) - already
        if not already:
            missing = max(missing, sizes.min())
        size = dict(zip(groups, sizes, strict=True))
        for group in generator.permutation(groups):
            if missing <= 0:
                break
            if size[group] < 2 * missing and self._take(group):
                missing -= size[group]

    def _take(self, group: int) -> bool:
        """Hold a group out, unless a class would have nothing left."""
        members = self._members[group]
        lost = np.bincount(self._labels[members], minlength=len(self._left))
        if (self._left <= lost)[lost > 0].any():
            return False
        self.held_out[members] = True
        self._left -= lost
        return True


def _numbered(groups: Sequence[str], count: int) -> np.ndarray:
    """The number of each image's group [N]; an image without one is a group of its own."""
    numbers: dict[str | int, int] = {}
    names = [group or index for index, group in enumerate(groups or [""] * count)]
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


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
