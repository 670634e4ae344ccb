# SPDX-License-Identifier: Apache-2.0
"""The classes of each step, and their samples: images, or cached features of frozen stages."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from newfound_core.augmentation import Augmentation
from newfound_core.backbones import Backbone, build_backbone
from newfound_core.errors import ConfigError, DataError
from newfound_core.frozen_features import (
    OTHER_CAMERA,
    FrozenStages,
    cached_features,
    cached_inputs,
    split_frozen,
)
from newfound_core.open_world.inputs import Inputs
from newfound_core.open_world.memory import Sample
from newfound_core.preprocessing import Preprocessing, default_preprocessing
from newfound_training.data import ImageSet, Pixels, load_pixels, open_images
from newfound_training.data.pixels import cache_root
from newfound_training.data.sampling import split
from newfound_training.openworld.options import DEFAULT_TRAIN_SPLIT, OpenWorldOptions

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
    """Shuffle the classes by the number `order`; the first `known` of them are learned.

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


def chosen_classes(classes: Sequence[str], options: OpenWorldOptions) -> list[str]:
    """The classes of a protocol: those for choices, those for reporting, or all."""
    if options.classes == "all":
        return list(classes)
    pick = choice_classes if options.classes == "choice" else reported_classes
    return pick(classes, options.choice_classes)


Groups = dict[str, list[Sample]]  # by class


@dataclass(frozen=True)
class ImageGroups:
    """Images of the wanted classes, divided into those to learn from and those to test with."""

    pixels: Pixels
    training: dict[str, list[int]]  # by class, indices into the pixels
    test: dict[str, list[int]]

    def name(self, index: int) -> str:
        """Name by which a person, and the memory of an interrupted run, finds an image."""
        return self.pixels.images.sources[index].name


@dataclass(frozen=True)
class OpenWorldDataset:
    """Everything a run needs of the data: samples, how they enter, what they enter."""

    training: Groups
    test: Groups
    inputs: Inputs
    network: nn.Module  # the part behind the frozen trunk, to be copied

    def samples(self, labels: Sequence[str]) -> list[Sample]:
        """Everything there is to learn about some classes."""
        return [sample for label in labels for sample in self.training[label]]


def load_groups(options: OpenWorldOptions) -> ImageGroups:
    """Decode the data and divide it by split and class."""
    images = open_images(options.data, options.layout)
    pixels = load_pixels(
        images, options.image_size, strict=options.strict, limit_gb=options.cache_limit_gb
    )
    training_set, test_set = _divided(pixels.images, options)
    return ImageGroups(
        pixels,
        _by_class(pixels, training_set, options.images_per_class),
        _by_class(pixels, test_set, options.test_images_per_class),
    )


def _divided(images: ImageSet, options: OpenWorldOptions) -> tuple[np.ndarray, np.ndarray]:
    """Indices to learn from and to test with."""
    if options.test_split:
        training, test = (_of(images, n) for n in (options.train_split, options.test_split))
    else:
        members = _to_learn_from(images, options.train_split)
        groups = [images.groups[i] for i in members]
        kept, held_out = split(images.labels[members], options.test_share, options.seed, groups)
        training, test = members[kept], members[held_out]
    for purpose, indices in (("learn from", training), ("test with", test)):
        present = set(images.labels[indices])
        missing = [name for i, name in enumerate(images.class_names) if i not in present]
        if missing:
            raise DataError(
                f"{images.root} has no images of {', '.join(missing)} to {purpose}: add some, "
                "remove the classes, or name other splits (of images that belong together, as "
                "those of one video, nothing is held out)"
            )
    return training, test


def _of(images: ImageSet, splits: Sequence[str]) -> np.ndarray:
    return np.flatnonzero(np.isin(images.domains, [images.domain_index(n) for n in splits]))


def _to_learn_from(images: ImageSet, splits: Sequence[str]) -> np.ndarray:
    """The images of the splits, or all if there is just the default name and no such split."""
    if tuple(splits) == DEFAULT_TRAIN_SPLIT and splits[0] not in images.domain_names:
        return np.arange(len(images))
    return _of(images, splits)


def _by_class(pixels: Pixels, indices: np.ndarray, count: int) -> dict[str, list[int]]:
    labels, names = pixels.images.labels, pixels.images.class_names
    return {
        name: [int(i) for i in indices if labels[i] == number][: count or None]
        for number, name in enumerate(names)
    }


def build_network(options: OpenWorldOptions, seed: int) -> Backbone:
    """The network before the first step; random weights follow from the seed."""
    weights = None if options.weights == "random" else options.weights
    arguments: dict[str, Any] = {} if options.width == 1.0 else {"width": options.width}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build_backbone(
            options.backbone, weights, stages=options.stages or None, **arguments
        )


def load_dataset(
    options: OpenWorldOptions,
    groups: ImageGroups,
    classes: Sequence[str],
    device: torch.device,
    *,
    backbone: Backbone,
    never_learned: Sequence[str] = (),
) -> OpenWorldDataset:
    """Samples of some classes, as images or, behind a frozen trunk, as cached features.

    Of classes that are `never_learned` there are only samples to test with.
    """
    tested = [*classes, *never_learned]
    preprocessing = default_preprocessing(options.backbone, options.image_size)
    frozen, rest = split_frozen(backbone, options.frozen_stages)
    if options.frozen_stages == 0:
        training = _image_samples(groups, groups.training, classes)
        test = _image_samples(groups, groups.test, tested)
        return OpenWorldDataset(training, test, image_inputs(preprocessing), rest)
    augmentation = OTHER_CAMERA if options.other_cameras else None
    stages = FrozenStages(frozen.to(device), preprocessing, device, augmentation)
    training = _cached_samples(stages, groups, groups.training, classes, options.crops)
    test = _cached_samples(stages, groups, groups.test, tested, None)
    return OpenWorldDataset(training, test, cached_inputs(), rest)


def _image_samples(
    groups: ImageGroups, indices: dict[str, list[int]], classes: Sequence[str]
) -> Groups:
    return {
        label: [Sample(groups.pixels[i], label, groups.name(i)) for i in indices[label]]
        for label in classes
    }


def _cached_samples(
    frozen: FrozenStages,
    groups: ImageGroups,
    indices: dict[str, list[int]],
    classes: Sequence[str],
    crops: int | None,
) -> Groups:
    """Samples whose image is an array [variants, C, H, W] instead; see `cached_inputs`."""
    sources = groups.pixels.images.sources
    wanted = {
        label: (
            [sources[i].fingerprint() for i in indices[label]],
            [groups.pixels[i] for i in indices[label]],
        )
        for label in classes
    }
    features = cached_features(frozen, wanted, crops, cache_root().parent / "features")
    return {
        label: [
            Sample(values, label, groups.name(i))
            for values, i in zip(features[label], indices[label], strict=True)
        ]
        for label in classes
    }


def image_inputs(preprocessing: Preprocessing) -> Inputs:
    """Random crops and mirroring for training, colour jitter for held-out samples."""
    crop = Augmentation(brightness=0.0, contrast=0.0, saturation=0.0)
    colour = Augmentation((1.0, 1.0), (1.0, 1.0), 0.0)
    return Inputs(
        preprocessing,
        lambda image, generator: crop(image, preprocessing, generator),
        lambda image, generator: colour(image, preprocessing, generator),
    )
