# SPDX-License-Identifier: Apache-2.0
"""Every option of `train_source`."""

from dataclasses import dataclass
from typing import Literal

from newfound_core.errors import ConfigError
from newfound_training.running.options import CommonOptions, option
from newfound_training.running.training import TrainingOptions


@dataclass(frozen=True)
class SourceOptions(TrainingOptions, CommonOptions):
    """A backbone with pretrained weights, fine-tuned on the images of its source domains."""

    domains: tuple[str, ...] = option((), "domains to train on; all if none is named")
    backbone: str = option("efficientnet_lite0", "network; see newfound_core.backbones")
    weights: str = option("imagenet", "imagenet, a file of tensors, or random")
    stages: int = option(0, "keep only so many stages of the network: smaller, faster; 0 is all")
    image_size: int = option(128, "pixels")
    resize: Literal["squash", "short_side_center_crop"] = option(
        "squash", "what the model does with images that are not square: all of it, or the middle"
    )
    output_norm: bool = option(False, "also normalise the logits, as the thesis's AlexNet does")
    frozen_stages: int = option(4, "stem and stages whose weights stay; their statistics follow")
    validation_share: float = option(0.1, "of every class, held out to measure accuracy")
    crop_area: tuple[float, ...] = option((0.6, 1.0), "random crops, smallest and largest share")
    colour_jitter: float = option(0.2, "random brightness, contrast and saturation")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.crop_area) != 2:
            raise ConfigError(f"crop_area must be two numbers, got {self.crop_area}")
        if self.frozen_stages < 0:
            raise ConfigError(f"frozen_stages must not be negative, got {self.frozen_stages}")
