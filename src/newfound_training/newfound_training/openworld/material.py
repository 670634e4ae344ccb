# SPDX-License-Identifier: Apache-2.0
"""Samples to learn from and to test with: images, or what a frozen trunk made of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.augmentation import Augmentation
from newfound_core.backbones import Backbone, build_backbone
from newfound_core.errors import ConfigError, DataError
from newfound_core.open_world.inputs import Inputs
from newfound_core.open_world.memory import Sample
from newfound_core.preprocessing import Preprocessing, default_preprocessing
from newfound_training.data import ImageSet, Pixels, load_pixels, open_images
from newfound_training.data.splits import split
from newfound_training.openworld.maps import JITTERED, PLAIN, Trunk, cached_maps
from newfound_training.openworld.options import DEFAULT_TRAIN_SPLIT, OpenWorldOptions

Groups = dict[str, list[Sample]]  # by class


@dataclass(frozen=True)
class ImageGroups:
    """Images of the wanted classes, divided into those to learn from and those to test with."""

    pixels: Pixels
    training: dict[str, list[int]]  # by class, indices into the pixels
    test: dict[str, list[int]]

    def name(self, index: int) -> str:
        """How a person, and the memory of an interrupted run, finds an image."""
        return self.pixels.images.sources[index].name


@dataclass(frozen=True)
class Material:
    """Everything a run needs of the data: samples, how they enter, what they enter."""

    training: Groups
    test: Groups
    inputs: Inputs
    network: nn.Module  # the part behind the frozen trunk, to be copied

    def samples(self, labels: Sequence[str]) -> list[Sample]:
        """Everything there is to learn about some classes."""
        return [sample for label in labels for sample in self.training[label]]


def load_groups(options: OpenWorldOptions) -> ImageGroups:
    """Decodes the data and divides it by split and class."""
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


def cut(backbone: Backbone, frozen_stages: int) -> tuple[nn.Sequential, nn.Sequential]:
    """The frozen trunk and the part that trains; modules are shared with the backbone."""
    parts = [backbone.stem, *backbone.stages]
    if frozen_stages > len(parts):
        raise ConfigError(
            f"the network has a stem and {len(parts) - 1} stages, so at most {len(parts)} of "
            f"them can be frozen, not {frozen_stages}"
        )
    rest = nn.Sequential(*parts[frozen_stages:], backbone.head)
    return nn.Sequential(*parts[:frozen_stages]), rest


def load_material(
    options: OpenWorldOptions,
    groups: ImageGroups,
    classes: Sequence[str],
    device: torch.device,
    *,
    backbone: Backbone,
    never_learned: Sequence[str] = (),
) -> Material:
    """Samples of some classes, as images or, behind a frozen trunk, as its maps.

    Of classes that are `never_learned` there are only samples to test with.
    """
    tested = [*classes, *never_learned]
    preprocessing = default_preprocessing(options.backbone, options.image_size)
    trunk, rest = cut(backbone, options.frozen_stages)
    if options.frozen_stages == 0:
        training = _image_samples(groups, groups.training, classes)
        test = _image_samples(groups, groups.test, tested)
        return Material(training, test, image_inputs(preprocessing), rest)
    frozen = Trunk(trunk.to(device), preprocessing, device)
    training = _map_samples(frozen, groups, groups.training, classes, options.crops)
    test = _map_samples(frozen, groups, groups.test, tested, None)
    return Material(training, test, map_inputs(), rest)


def _image_samples(
    groups: ImageGroups, indices: dict[str, list[int]], classes: Sequence[str]
) -> Groups:
    return {
        label: [Sample(groups.pixels[i], label, groups.name(i)) for i in indices[label]]
        for label in classes
    }


def _map_samples(
    trunk: Trunk,
    groups: ImageGroups,
    indices: dict[str, list[int]],
    classes: Sequence[str],
    crops: int | None,
) -> Groups:
    """Samples whose image is an array [variants, C, H, W] instead; see `map_inputs`."""
    sources = groups.pixels.images.sources
    wanted = {
        label: (
            [sources[i].fingerprint() for i in indices[label]],
            [groups.pixels[i] for i in indices[label]],
        )
        for label in classes
    }
    maps = cached_maps(trunk, wanted, crops)
    return {
        label: [
            Sample(values, label, groups.name(i))
            for values, i in zip(maps[label], indices[label], strict=True)
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


def map_inputs() -> Inputs:
    """The same for maps: one of the variants that were computed beforehand is drawn."""

    def one(maps: np.ndarray, position: int) -> Tensor:
        position = min(position, len(maps) - 1)  # some have no variants
        return torch.from_numpy(maps[position].astype(np.float32))

    def vary(maps: np.ndarray, generator: np.random.Generator) -> Tensor:
        return one(maps, int(generator.integers(len(maps))))

    return Inputs(lambda maps: one(maps, PLAIN), vary, lambda maps, generator: one(maps, JITTERED))
