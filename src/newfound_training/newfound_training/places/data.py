# SPDX-License-Identifier: Apache-2.0
"""Images by domain, balanced batches of them, and how they enter a network."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.augmentation import Augmentation
from newfound_core.errors import ConfigError, DataError
from newfound_core.frozen_features import FrozenStages, cached_features
from newfound_core.preprocessing import Preprocessing
from newfound_training.data import ImageSet, Pixels
from newfound_training.data.sampling import Shuffled, split
from newfound_training.places.options import DomainPart, PlacesOptions


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
        """Hold out the same share of every place in every domain."""
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
        """Number of images to train on."""
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


class Inputs(Protocol):
    """The input of every image, for training and for testing."""

    def varied(self, index: int, generator: np.random.Generator) -> Tensor:
        """A random variant of one image."""

    def plain(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """A batch of images as they are."""


class ImageInputs:
    """Preprocessed images; the network computes everything else."""

    def __init__(
        self, pixels: Pixels, preprocessing: Preprocessing, options: PlacesOptions
    ) -> None:
        low, high = options.crop_area
        jitter = options.colour_jitter
        self.pixels, self.preprocessing = pixels, preprocessing
        self.augmentation = Augmentation(
            (low, high), brightness=jitter, contrast=jitter, saturation=jitter
        )

    def __len__(self) -> int:
        return len(self.pixels)

    def varied(self, index: int, generator: np.random.Generator) -> Tensor:
        """A random crop, mirrored and recoloured, [3, H, W]."""
        return self.augmentation(self.pixels[index], self.preprocessing, generator)

    def plain(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """[N, 3, H, W]."""
        images = self.preprocessing.batch([self.pixels[i] for i in indices])
        return images.contiguous(memory_format=torch.channels_last)


class FrozenInputs:
    """Cached features of all images behind the frozen stages: plain, and in random variants."""

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows  # [N, 1 + variants, values]; the plain image comes first

    @classmethod
    def of(
        cls, frozen: nn.Module, images: ImageInputs, variants: int, folder: Path
    ) -> "FrozenInputs":
        """Compute all features, or read them from the folder that an interrupted run left."""
        device = next(frozen.parameters()).device
        stages = FrozenStages(frozen, images.preprocessing, device, images.augmentation)
        fingerprints = [source.fingerprint() for source in images.pixels.images.sources]
        pixels = cast(Sequence[np.ndarray], images.pixels)
        return cls(cached_features(stages, {"": (fingerprints, pixels)}, variants, folder)[""])

    def varied(self, index: int, generator: np.random.Generator) -> Tensor:
        """Return the row of one of the variants of an image."""
        variant = generator.integers(1, self._rows.shape[1])
        return torch.from_numpy(self._rows[index, variant].astype(np.float32))

    def plain(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """Return the rows of images as they are, [N, values]."""
        return torch.from_numpy(self._rows[indices, 0].astype(np.float32))
