# SPDX-License-Identifier: Apache-2.0
"""Which samples the memory holds out from training, and which it keeps after a step."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from newfound_core.errors import DataError
from newfound_core.open_world.memory import Memory, MemoryConfig, Sample


def class_share(config: MemoryConfig, classes: int) -> int:
    """Return how many samples each of so many classes may keep."""
    share = config.size // max(classes, 1)
    if share == 0:
        raise DataError(
            f"a memory of {config.size} samples cannot hold {classes} classes; make it larger"
        )
    return share


def held_out_count(config: MemoryConfig, samples: int) -> int:
    """Return how many of a class's samples to hold out: at least one of two or more."""
    if config.held_out_share == 0 or samples < 2:
        return 0
    return max(1, min(round(config.held_out_share * samples), samples - 1))


def hold_out(
    samples: Sequence[Sample], config: MemoryConfig, classes: int, generator: np.random.Generator
) -> tuple[list[Sample], list[Sample]]:
    """Split new samples, before training, into those to train on and those held out.

    Held-out samples are drawn at random: thresholds learnt from samples near the mean would be
    too small.
    """
    training, held_out = [], []
    for group in by_label(samples).values():
        count = held_out_count(config, min(class_share(config, classes), len(group)))
        drawn = set(generator.permutation(len(group))[:count].tolist())
        for index, sample in enumerate(group):
            if index in drawn:
                held_out.append(replace(sample, held_out=True))
            else:
                training.append(sample)
    return training, held_out


def select(
    config: MemoryConfig,
    labels: Sequence[str],
    training: Sequence[Sample],
    distances: Sequence[float],
    *,
    held_out: Sequence[Sample],
    generator: np.random.Generator,
) -> Memory:
    """Return the memory after a step: an equal share per class, nearest to the mean first.

    `training` and `held_out` are all samples at hand, remembered and new; `distances` are those
    of `training` to their class means. Neither kind ever becomes the other.
    """
    if any(sample.held_out for sample in training):
        raise DataError("a held-out sample was handed over as one to train on")
    share = class_share(config, len(labels))
    order = np.argsort(np.nan_to_num(np.asarray(distances), nan=np.inf), kind="stable")
    ranked, spare = by_label(training[i] for i in order), by_label(held_out)
    kept = {}
    for label in labels:
        near, apart = ranked.get(label, []), spare.get(label, [])
        count = min(len(apart), held_out_count(config, min(share, len(near) + len(apart))))
        drawn = sorted(generator.permutation(len(apart))[:count])
        kept[label] = near[: share - count] + [apart[i] for i in drawn]
    return Memory(config, kept)


def by_label(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Group samples by class, in their order."""
    groups: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.label].append(sample)
    return dict(groups)
