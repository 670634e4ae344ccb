# SPDX-License-Identifier: Apache-2.0
"""The fixed-size memory: all that remains of old data, and what it keeps after a step."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from newfound_core.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False)
class Sample:
    """One labelled image."""

    image: np.ndarray | bytes  # uint8 [H, W, 3] in RGB order, or an encoded PNG or JPEG
    label: str
    source: str = ""  # where it came from: camera, web, a data set
    held_out: bool = False  # never trained on: the thresholds are learnt from it

    def pixels(self) -> np.ndarray:
        """Return the image as uint8 [H, W, 3] in RGB order."""
        if isinstance(self.image, np.ndarray):
            return self.image
        decoded = cv2.imdecode(np.frombuffer(self.image, np.uint8), cv2.IMREAD_COLOR)
        if decoded is None:
            raise DataError(
                f"an image of class {self.label!r} ({len(self.image)} bytes) cannot be decoded; "
                "expected a PNG or JPEG"
            )
        return cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)


@dataclass(frozen=True)
class MemoryConfig:
    """Size of the memory."""

    size: int = 2000  # samples, of all classes together
    held_out_share: float = 0.2  # of each class's samples; 0 for methods without learnt thresholds

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"the size of the memory must be at least 1, got {self.size}")
        if not 0 <= self.held_out_share < 1:
            raise ConfigError(f"held_out_share must be in [0, 1), got {self.held_out_share}")


class Memory:
    """Samples by class, never more than its size. What to keep is decided in `selection`."""

    def __init__(
        self,
        config: MemoryConfig | None = None,
        samples: Mapping[str, Sequence[Sample]] | None = None,
    ) -> None:
        self.config = config or MemoryConfig()
        self._samples = {label: tuple(kept) for label, kept in (samples or {}).items()}
        for label, kept in self._samples.items():
            if any(sample.label != label for sample in kept):
                raise DataError(f"the memory of class {label!r} holds samples of another class")
        if len(self) > self.config.size:
            raise DataError(f"{len(self)} samples do not fit a memory of {self.config.size}")

    def __len__(self) -> int:
        return sum(len(kept) for kept in self._samples.values())

    @property
    def labels(self) -> list[str]:
        """Classes with at least one sample."""
        return [label for label, kept in self._samples.items() if kept]

    def samples(self, label: str) -> tuple[Sample, ...]:
        """Samples of one class, most relevant first, held-out ones last."""
        return self._samples.get(label, ())

    def training(self) -> list[Sample]:
        """Return every sample that may be trained on."""
        return [sample for sample in self._all() if not sample.held_out]

    def held_out(self) -> list[Sample]:
        """Return every sample that thresholds may be learnt from."""
        return [sample for sample in self._all() if sample.held_out]

    def without(self, label: str) -> "Memory":
        """Return the memory after a class was forgotten."""
        kept = {name: samples for name, samples in self._samples.items() if name != label}
        return Memory(self.config, kept)

    def renamed(self, label: str, new_label: str) -> "Memory":
        """Return the memory after a class was given another name."""
        kept = {
            new_label if name == label else name: [
                replace(sample, label=new_label) if name == label else sample for sample in samples
            ]
            for name, samples in self._samples.items()
        }
        return Memory(self.config, kept)

    def _all(self) -> Iterable[Sample]:
        return (sample for kept in self._samples.values() for sample in kept)


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
