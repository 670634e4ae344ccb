# SPDX-License-Identifier: Apache-2.0
"""Held-out parts of a set, the same for the same seed on every machine."""

from collections.abc import Sequence

import numpy as np

from newfound_core.errors import ConfigError


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
    """Which images are held out so far, group by group."""

    def __init__(self, labels: np.ndarray, groups: np.ndarray) -> None:
        self._labels, self._groups = labels, groups
        ends = np.cumsum(np.bincount(groups))
        self._members = np.split(np.argsort(groups, kind="stable"), ends[:-1])
        self._left = np.bincount(labels)  # images of each class to train on
        self.held_out = np.zeros(len(labels), dtype=bool)

    def hold_out(self, label: int, share: float, generator: np.random.Generator) -> None:
        """Draws groups as long as that brings a class nearer to its share."""
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
        """Holds a group out, unless a class would have nothing left."""
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
