# SPDX-License-Identifier: Apache-2.0
"""Which classes are learned in which step, and which stay unknown."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from newfound_core.errors import ConfigError

# The classes on which choices are made are the same in every run: they must never be reported.
_CHOICE_SEED = 60


@dataclass(frozen=True)
class Protocol:
    """Classes in the order in which a robot meets them."""

    steps: tuple[tuple[str, ...], ...]
    unknown: tuple[str, ...]  # never learned

    @property
    def known(self) -> tuple[str, ...]:
        """All classes that are learned, in their order."""
        return tuple(label for step in self.steps for label in step)

    def joint(self) -> "Protocol":
        """The same classes, all learned at once: the upper bound."""
        return Protocol((self.known,), self.unknown)


def make_protocol(
    classes: Sequence[str],
    *,
    known: int,
    initial: int,
    per_step: int,
    order: int,
    unknown: int = 0,
) -> Protocol:
    """Shuffles the classes by the number `order`; the first `known` of them are learned.

    `known` 0 learns all of them, `initial` 0 all of those at once; `unknown` 0 shows all others.
    """
    known = known or len(classes)
    initial = initial or known
    if not 1 <= initial <= known <= len(classes):
        raise ConfigError(
            f"{initial} initial classes of {known} known ones cannot be drawn from the "
            f"{len(classes)} classes at hand"
        )
    if per_step < 1:
        raise ConfigError(f"classes_per_step must be at least 1, got {per_step}")
    shuffled = [classes[i] for i in np.random.default_rng([order, 8]).permutation(len(classes))]
    cuts = [0, *range(initial, known, per_step), known]
    steps = tuple(tuple(shuffled[a:b]) for a, b in pairwise(cuts) if a < b)
    others = shuffled[known:]
    if unknown > len(others):
        raise ConfigError(f"{unknown} unknown classes are asked for, but {len(others)} are left")
    return Protocol(steps, tuple(others[: unknown or None]))


def choice_classes(classes: Sequence[str], count: int) -> list[str]:
    """The classes on which choices are made, always the same ones of a data set."""
    if not 0 <= count <= len(classes):
        raise ConfigError(f"{count} choice classes cannot be drawn from {len(classes)} classes")
    drawn = np.random.default_rng(_CHOICE_SEED).permutation(len(classes))[:count]
    return [classes[i] for i in sorted(drawn)]


def reported_classes(classes: Sequence[str], count: int) -> list[str]:
    """All other classes: results are reported on these."""
    kept_apart = set(choice_classes(classes, count))
    return [label for label in classes if label not in kept_apart]
