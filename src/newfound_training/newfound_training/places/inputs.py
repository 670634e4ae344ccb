# SPDX-License-Identifier: Apache-2.0
"""What enters a network: images, varied at random in training."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from newfound_core.augmentation import Augmentation
from newfound_core.preprocessing import Preprocessing
from newfound_training.data import Pixels
from newfound_training.places.options import PlacesOptions


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
        self._pixels, self._preprocessing = pixels, preprocessing
        self._augmentation = Augmentation(
            (low, high), brightness=jitter, contrast=jitter, saturation=jitter
        )

    def __len__(self) -> int:
        return len(self._pixels)

    def varied(self, index: int, generator: np.random.Generator) -> Tensor:
        """A random crop, mirrored and recoloured, [3, H, W]."""
        return self._augmentation(self._pixels[index], self._preprocessing, generator)

    def plain(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """[N, 3, H, W]."""
        images = self._preprocessing.batch([self._pixels[i] for i in indices])
        return images.contiguous(memory_format=torch.channels_last)
