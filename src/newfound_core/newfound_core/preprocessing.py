# SPDX-License-Identifier: Apache-2.0
"""From a camera image to the network's input: one function for training, evaluation and nodes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import cv2
import numpy as np
import torch
from torch import Tensor

from newfound_core.errors import ConfigError, DataError

Resize = Literal["squash", "short_side_center_crop"]
Interpolation = Literal["auto", "linear", "area", "cubic", "nearest"]

_CV2 = {
    "linear": cv2.INTER_LINEAR,
    "area": cv2.INTER_AREA,
    "cubic": cv2.INTER_CUBIC,
    "nearest": cv2.INTER_NEAREST,
}
IMAGENET_MEAN = (123.675, 116.28, 103.53)  # 255 x (0.485, 0.456, 0.406)
IMAGENET_STD = (58.395, 57.12, 57.375)  # 255 x (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocessing:
    """Conversion of an 8-bit RGB image to a tensor: resized, then (x - mean) / std.

    Colour order is red, green, blue. `mean` and `std` are in the units of the pixels, 0 to 255:
    there is no other scale.
    """

    size: int = 224  # pixels; the result is square
    resize: Resize = "squash"  # the whole image, or the middle of it in its own proportions
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    interpolation: Interpolation = "auto"  # halved while that is possible, then linear

    def __post_init__(self) -> None:
        if type(self.size) is not int or not 8 <= self.size <= 4096:
            raise ConfigError(f"size must be a whole number from 8 to 4096, got {self.size!r}")
        if self.resize not in get_args(Resize):
            raise ConfigError(f"resize must be one of {get_args(Resize)}, got {self.resize!r}")
        if self.interpolation not in get_args(Interpolation):
            known = get_args(Interpolation)
            raise ConfigError(f"interpolation must be one of {known}, got {self.interpolation!r}")
        object.__setattr__(self, "mean", _three("mean", self.mean))
        object.__setattr__(self, "std", _three("std", self.std))
        if min(self.std) <= 0:
            raise ConfigError(f"std must be positive, got {self.std}")

    def __call__(self, image: np.ndarray) -> Tensor:
        """One image, uint8 [H, W, 3] RGB, to float32 [3, size, size]."""
        return self.normalise(self.resized(check_image(image)))

    def batch(self, images: Sequence[np.ndarray]) -> Tensor:
        """Images of any sizes to one tensor, float32 [N, 3, size, size]."""
        result = torch.empty(len(images), 3, self.size, self.size)
        for place, image in zip(result, images, strict=True):
            self.normalise(self.resized(check_image(image)), out=place)
        return result

    def resized(self, image: np.ndarray) -> np.ndarray:
        """The uint8 image at the network's size; what a person would look at."""
        if self.resize == "short_side_center_crop":
            image = center_square(image)
        return resize_to(image, self.size, self.interpolation)

    def normalise(self, image: np.ndarray, out: Tensor | None = None) -> Tensor:
        """A uint8 image of the right size as float32 [3, H, W], (x - mean) / std."""
        height, width = image.shape[:2]
        if out is None:
            out = torch.empty(3, height, width)
        # As one multiplication and one addition: x * scale + shift, written channel by channel.
        for channel, mean, std, plane in zip(
            cv2.split(image), self.mean, self.std, out.numpy(), strict=True
        ):
            np.multiply(channel, np.float32(1 / std), out=plane, dtype=np.float32)
            np.subtract(plane, np.float32(mean / std), out=plane)
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` reads them back."""
        return asdict(self) | {"mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Preprocessing":
        """Read what `to_dict` wrote; an unknown or missing key is a ConfigError."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"preprocessing must be a table of values, got {values!r}")
        names = {field.name for field in fields(cls)}
        unknown, missing = sorted(set(values) - names), sorted(names - set(values))
        if unknown or missing:
            raise ConfigError(f"preprocessing: unknown {unknown}, missing {missing}")
        return cls(**values)


def default_preprocessing(backbone: str, size: int = 224) -> Preprocessing:
    """Preprocessing that the ImageNet weights of a backbone expect."""
    if backbone == "efficientnet_lite0":
        return Preprocessing(size, mean=(127.0,) * 3, std=(128.0,) * 3)
    if backbone.startswith("timm/"):
        from newfound_core.backbones.timm_networks import timm_settings

        settings = timm_settings(backbone.removeprefix("timm/"))
        mean, std = ([255 * value for value in v] for v in (settings.mean, settings.std))
        return Preprocessing(size, mean=_three("mean", mean), std=_three("std", std))
    return Preprocessing(size)


def check_image(image: np.ndarray) -> np.ndarray:
    """The image itself, if it is uint8 [H, W, 3]; otherwise a DataError that says what it is."""
    if not isinstance(image, np.ndarray):
        raise DataError(f"an image must be a NumPy array, got {type(image).__name__}")
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise DataError(
            f"an image must be uint8 of shape [height, width, 3] in RGB order, "
            f"got {image.dtype} of shape {list(image.shape)}"
        )
    return image


def center_square(image: np.ndarray) -> np.ndarray:
    """The largest square in the middle, as a view."""
    height, width = image.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return image[top : top + side, left : left + side]


def resize_to(image: np.ndarray, size: int, interpolation: Interpolation = "auto") -> np.ndarray:
    """The image at size x size; itself if it has that size.

    "auto" halves by averaging while both sides stay at least as large as asked, then
    interpolates: free of aliasing like "area", and several times as fast on a camera image.
    """
    if interpolation == "auto":
        interpolation = "linear"
        while min(image.shape[:2]) >= 2 * size:
            half = (image.shape[1] // 2, image.shape[0] // 2)
            image = cv2.resize(image, half, interpolation=cv2.INTER_AREA)
    if image.shape[:2] == (size, size):
        return image
    return cv2.resize(image, (size, size), interpolation=_CV2[interpolation])


def _three(name: str, values: Any) -> tuple[float, float, float]:
    """Three finite numbers as floats."""
    try:
        red, green, blue = (float(value) for value in values)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} must be three numbers, got {values!r}") from error
    if not all(map(math.isfinite, (red, green, blue))):
        raise ConfigError(f"{name} must be finite, got {values!r}")
    return red, green, blue
