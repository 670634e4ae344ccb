# SPDX-License-Identifier: Apache-2.0
"""Images by domain, where the domain may be a part of the folder's name, and balanced batches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from newfound_core.errors import ConfigError, DataError
from newfound_training.data import ImageSet, Pixels
from newfound_training.data.batches import Shuffled
from newfound_training.data.splits import split
from newfound_training.places.options import DomainPart


@dataclass(frozen=True)
class PlaceImages:
    """Decoded images with their domains; `folders` are finer: `loft_night` in domain `loft`."""

    pixels: Pixels
    part: DomainPart = "whole"

    @cached_property
    def folders(self) -> np.ndarray:
        """[N] the name of the first level of the tree."""
        images = self.pixels.images
        return np.array(images.domain_names)[images.domains]

    @cached_property
    def domains(self) -> np.ndarray:
        """[N] the name of each image's domain."""
        return np.array([domain_of(name, self.part) for name in self.folders])

    @property
    def labels(self) -> np.ndarray:
        """[N] index of the place."""
        return self.pixels.images.labels

    @property
    def domain_names(self) -> list[str]:
        """All domains, sorted."""
        return sorted(set(self.domains))

    def of(self, domain: str) -> np.ndarray:
        """Indices of the images of a domain; a DataError if there are none."""
        found = np.flatnonzero(self.domains == domain)
        if not len(found):
            known = ", ".join(self.domain_names)
            raise DataError(f"{self.pixels.images.root} has no domain {domain!r}; it has {known}")
        return found

    def require_every_place(self, domains: Iterable[str]) -> None:
        """A DataError if a place has no image in one of the domains."""
        names = self.pixels.images.class_names
        for domain in domains:
            present = set(self.labels[self.of(domain)])
            missing = [name for i, name in enumerate(names) if i not in present]
            if missing:
                raise DataError(
                    f"domain {domain!r} of {self.pixels.images.root} has no images of "
                    f"{', '.join(missing)}: add some, or do not name it"
                )


def domain_of(folder: str, part: DomainPart) -> str:
    """The domain that a folder belongs to: `loft`, `night`, or all of `loft_night`."""
    if part == "whole":
        return folder
    first, separator, last = folder.rpartition("_")
    if not separator:
        raise DataError(
            f"the domain {folder!r} has no parts: expected <first>_<last>, as loft_night, or "
            "--domain-part whole"
        )
    return first if part == "first" else last


def evenly_chosen(images: ImageSet, count: int) -> np.ndarray:
    """Indices of at most `count` images of every folder and class, spread over its order."""
    chosen = []
    for domain, label in np.unique(np.stack([images.domains, images.labels]), axis=1).T:
        members = np.flatnonzero((images.domains == domain) & (images.labels == label))
        places = np.linspace(0, len(members) - 1, min(count, len(members)))
        chosen.append(members[places.round().astype(np.int64)])
    return np.concatenate(chosen)


@dataclass(frozen=True)
class Sources:
    """The images of the source domains, those to train on and those held out."""

    names: tuple[str, ...]
    training: tuple[np.ndarray, ...]  # indices, for each domain
    validation: np.ndarray  # indices, of all domains

    @classmethod
    def split(
        cls, images: PlaceImages, names: Sequence[str], share: float, seed: int
    ) -> "Sources":
        """Holds out the same share of every place in every domain."""
        training, validation = [], []
        for name in names:
            members = images.of(name)
            groups = [images.pixels.images.groups[i] for i in members]
            kept, held_out = split(images.labels[members], share, seed, groups)
            training.append(members[kept])
            validation.append(members[held_out])
        return cls(tuple(names), tuple(training), np.concatenate(validation))

    def without(self, number: int) -> "Sources":
        """All but one of the domains; what was held out of it plays no part either."""
        kept = [i for i in range(len(self.names)) if i != number]
        return Sources(
            tuple(self.names[i] for i in kept),
            tuple(self.training[i] for i in kept),
            np.empty(0, dtype=np.int64),
        )

    @property
    def count(self) -> int:
        """How many images are trained on."""
        return sum(map(len, self.training))


class BalancedBatches:
    """Batches with equally many images of every domain: a function of seed and step alone."""

    def __init__(self, members: Sequence[np.ndarray], batch_size: int, seed: int) -> None:
        if batch_size < 2 * len(members):
            raise ConfigError(
                f"batch_size {batch_size} is too small for {len(members)} domains: statistics "
                "need at least two images of each"
            )
        self.members, self.batch_size = members, batch_size
        each, rest = divmod(batch_size, len(members))
        self._orders = [
            Shuffled(len(m), each + (d < rest), _seed(seed, d)) for d, m in enumerate(members)
        ]

    def __call__(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the images of a step, and the number of each one's domain."""
        parts = [m[order(step)] for m, order in zip(self.members, self._orders, strict=True)]
        domains = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return np.concatenate(parts), domains


def _seed(seed: int, domain: int) -> int:
    return int(np.random.SeedSequence([seed, 5, domain]).generate_state(1)[0])
