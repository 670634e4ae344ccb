# SPDX-License-Identifier: Apache-2.0
"""Random crops, mirroring and colour jitter in front of the preprocessing, for training."""

import math
from dataclasses import dataclass

import cv2
import numpy as np
from torch import Tensor

from newfound_core.errors import ConfigError
from newfound_core.preprocessing import Preprocessing, check_image, resize_to

_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # luma of RGB, ITU-R BT.601


@dataclass(frozen=True)
class Augmentation:
    """Random variation of training images; all randomness comes from the generator given.

        image ─► crop ─► resize ─► mirror ─► colour ─► normalise

    The crop replaces the preprocessing's resize policy; size, interpolation, mean and std
    are those of the preprocessing.
    """

    crop_area: tuple[float, float] = (0.6, 1.0)  # share of the image's area
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)  # width over height
    mirror: float = 0.5  # probability
    brightness: float = 0.2  # factors are drawn from 1 - value to 1 + value
    contrast: float = 0.2
    saturation: float = 0.2
    smallest_side: int = 0  # pixels that a crop may be reduced to, as if from afar; 0: never

    def __post_init__(self) -> None:
        low, high = self.crop_area
        if not 0 < low <= high <= 1:
            raise ConfigError(f"crop_area must rise within (0, 1], got {self.crop_area}")
        low, high = self.crop_ratio
        if not 0 < low <= high:
            raise ConfigError(f"crop_ratio must be positive and rise, got {self.crop_ratio}")
        for name in ("mirror", "brightness", "contrast", "saturation"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be in [0, 1], got {getattr(self, name)}")

    def __call__(
        self, image: np.ndarray, preprocessing: Preprocessing, generator: np.random.Generator
    ) -> Tensor:
        """A random variant of one image, uint8 [H, W, 3] RGB, as float32 [3, size, size]."""
        image = self.crop(check_image(image), generator)
        if self.smallest_side:
            image = self.reduce(image, generator)
        image = resize_to(image, preprocessing.size, preprocessing.interpolation)
        if generator.random() < self.mirror:
            image = image[:, ::-1]
        return preprocessing.normalise(self.jitter(image, generator))

    def crop(self, image: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """A random rectangle of the image, as a view, never larger than the image."""
        height, width = image.shape[:2]
        area = height * width * generator.uniform(*self.crop_area)
        ratio = math.exp(generator.uniform(*np.log(self.crop_ratio)))
        w = min(width, max(1, round(math.sqrt(area * ratio))))
        h = min(height, max(1, round(math.sqrt(area / ratio))))
        top = int(generator.integers(height - h + 1))
        left = int(generator.integers(width - w + 1))
        return image[top : top + h, left : left + w]

    def reduce(self, image: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Fewer pixels: a shorter side between the smallest and its own, all scales alike."""
        side = min(image.shape[:2])
        if side <= self.smallest_side:
            return image
        wanted = math.exp(generator.uniform(math.log(self.smallest_side), math.log(side)))
        size = [max(1, round(length * wanted / side)) for length in image.shape[1::-1]]
        return cv2.resize(image, size, interpolation=cv2.INTER_AREA)

    def jitter(self, image: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Brightness, contrast and saturation by random factors, cut to 0..255."""
        amounts = np.array([self.brightness, self.contrast, self.saturation])
        if not amounts.any():
            return np.ascontiguousarray(image)
        brightness, contrast, saturation = generator.uniform(1 - amounts, 1 + amounts)
        pixels = image.astype(np.float32) * np.float32(brightness)
        pixels = blend(pixels, np.full_like(pixels, (pixels @ _GREY).mean()), contrast)
        grey = pixels @ _GREY  # [H, W]
        pixels = blend(pixels, cv2.merge([grey, grey, grey]), saturation)
        return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def blend(pixels: np.ndarray, towards: np.ndarray, factor: float) -> np.ndarray:
    """factor * pixels + (1 - factor) * towards; a factor above 1 exaggerates the difference."""
    return cv2.addWeighted(pixels, float(factor), towards, 1 - float(factor), 0.0)
