# SPDX-License-Identifier: Apache-2.0
"""Labelled images as the frozen layers see them, computed once and drawn from in training.

Random variants (crop, mirror, colour) are made beforehand, so that a step of training costs what
the layers that learn cost. Labels keep the numbers of their data set until they are drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import torch
from torch import Tensor

from newfound_core.augmentation import Augmentation
from newfound_core.errors import DataError
from newfound_core.preprocessing import Preprocessing, check_image, resize_to
from newfound_core.segmentation import UNLABELLED
from newfound_core.segmentation.label_image import check_label_image, resized_labels
from newfound_core.segmentation.network import SegmentationNetwork

VARIATION = Augmentation((0.4, 1.0), brightness=0.3, contrast=0.3, saturation=0.3)
LABEL_STRIDE = 2  # labels are trained on at half of the network's size: the logits are coarser
_BATCH = 16


@dataclass(frozen=True)
class LabelledImage:
    """An image and the class of every pixel."""

    rgb: np.ndarray  # uint8 [H, W, 3]
    labels: np.ndarray  # uint8 [H, W], 255: not known
    name: str = ""  # for messages

    def check(self, classes: int) -> None:
        """A DataError unless both fit each other and the number of classes."""
        check_image(self.rgb)
        check_label_image(self.labels, classes, self.name or "a label image")
        if self.labels.shape != self.rgb.shape[:2]:
            raise DataError(
                f"{self.name or 'a label image'} has {_shown(self.labels)} pixels, its image "
                f"{_shown(self.rgb)}: labels must be drawn at the size of the image"
            )


def _shown(pixels: np.ndarray) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"


@dataclass(frozen=True)
class Samples:
    """What the frozen layers make of images and their variants."""

    maps: tuple[np.ndarray, ...]  # float16 [images, variants, ...]: what `begin` hands on
    labels: np.ndarray  # uint8 [images, variants, h, w]
    frozen: int  # parts of the network that are frozen

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def variants(self) -> int:
        """Of each image; the first is the image as it is."""
        return self.labels.shape[1]

    def select(self, chosen: Sequence[int]) -> "Samples":
        """Some of the images."""
        rows = list(chosen)
        return Samples(tuple(m[rows] for m in self.maps), self.labels[rows], self.frozen)

    def unlabelled(self) -> "Samples":
        """The same images without their labels: to distil on."""
        return replace(self, labels=np.full_like(self.labels, UNLABELLED))

    def joined(self, other: "Samples") -> "Samples":
        """These images and those of another, as the same frozen layers see them."""
        maps = [np.concatenate(m) for m in zip(self.maps, other.maps, strict=True)]
        return Samples(tuple(maps), np.concatenate([self.labels, other.labels]), self.frozen)

    def batch(
        self, images: np.ndarray, variants: np.ndarray, device: torch.device
    ) -> tuple[Tensor, ...]:
        """The maps of some images in some variants."""
        found = [torch.from_numpy(m[images, variants].astype(np.float32)) for m in self.maps]
        return tuple(m.to(device) for m in found)


@torch.no_grad()
def compute_samples(
    network: SegmentationNetwork,
    images: Sequence[LabelledImage],
    preprocessing: Preprocessing,
    *,
    frozen: int,
    variants: int = 0,
    seed: int = 0,
    on_done: Callable[[int], None] = lambda done: None,
) -> Samples:
    """Run images and `variants` random variants of each through the frozen layers."""
    network.eval()
    device = next(network.parameters()).device
    inputs: list[Tensor] = []
    labels: list[np.ndarray] = []
    maps: list[list[np.ndarray]] = []

    def flush() -> None:
        found = network.begin(torch.stack(inputs).to(device), frozen)
        maps.append([m.half().cpu().numpy() for m in found])
        inputs.clear()

    for number, image in enumerate(images):
        for variant in range(1 + variants):
            pixels, classes = varied(image, preprocessing, [seed, number, variant])
            inputs.append(pixels)
            labels.append(classes)
            if len(inputs) == _BATCH:
                flush()
        on_done(number + 1)
    if inputs:
        flush()
    count = len(images)
    joined = [np.concatenate(parts) for parts in zip(*maps, strict=True)]
    return Samples(
        tuple(m.reshape(count, 1 + variants, *m.shape[1:]) for m in joined),
        np.stack(labels).reshape(count, 1 + variants, *labels[0].shape),
        frozen,
    )


@torch.no_grad()
def deeper(samples: Samples, network: SegmentationNetwork, frozen: int) -> Samples:
    """Samples as more layers of a network see them, which are frozen then as well."""
    if frozen <= samples.frozen:
        return samples
    network.eval()
    device = next(network.parameters()).device
    every, found = np.arange(samples.variants), []
    for number in range(len(samples)):
        maps = samples.batch(np.full_like(every, number), every, device)
        more = network.further(maps, samples.frozen, frozen)
        found.append([m.half().cpu().numpy() for m in more])
    maps_ = tuple(np.stack(parts) for parts in zip(*found, strict=True))
    return Samples(maps_, samples.labels, frozen)


def varied(
    image: LabelledImage, preprocessing: Preprocessing, seed: Sequence[int]
) -> tuple[Tensor, np.ndarray]:
    """The network's input and labels of a variant; a seed that ends with 0: the image as it is."""
    rgb, labels = image.rgb, image.labels
    plain = seed[-1] == 0
    generator = np.random.default_rng(seed)
    if not plain:
        # The same random numbers cut the same rectangle out of both.
        labels = VARIATION.crop(labels, np.random.default_rng(seed))
        rgb = VARIATION.crop(rgb, generator)
    side = preprocessing.size // LABEL_STRIDE
    rgb = resize_to(rgb, preprocessing.size, preprocessing.interpolation)
    labels = resized_labels(np.ascontiguousarray(labels), (side, side))
    if not plain:
        if generator.random() < VARIATION.mirror:
            rgb, labels = cv2.flip(rgb, 1), cv2.flip(labels, 1)
        rgb = VARIATION.jitter(rgb, generator)
    return preprocessing.normalise(rgb), labels


def reduced(image: LabelledImage, size: int) -> LabelledImage:
    """The image with sides of two to four times the network's, if both are larger."""
    rgb, labels = image.rgb, image.labels
    while min(rgb.shape[:2]) >= 4 * size:
        half = (rgb.shape[1] // 2, rgb.shape[0] // 2)
        rgb = cv2.resize(rgb, half, interpolation=cv2.INTER_AREA)
        labels = resized_labels(labels, half)
    return LabelledImage(rgb, labels, image.name)
