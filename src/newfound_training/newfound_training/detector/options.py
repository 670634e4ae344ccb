# SPDX-License-Identifier: Apache-2.0
"""Every option of `train_detector`, and those of all commands that read pictures with boxes."""

from dataclasses import dataclass
from pathlib import Path

from newfound_core.errors import ConfigError
from newfound_training.detector.coco import Picture, read_pictures
from newfound_training.running.options import OutputOptions, option
from newfound_training.running.training import TrainingOptions


@dataclass(frozen=True)
class PictureOptions(OutputOptions):
    """Where pictures and their boxes are."""

    data: str = option("", "folder with annotations in the format of COCO", required=True)
    annotations: str = option(
        "", "file in it, as annotations/instances_train2017.json; none: every annotations.json"
    )
    images: str = option("", "folder in it, as train2017; none: beside the annotations, images/")

    def pictures(self) -> list[Picture]:
        """All of them, in a fixed order."""
        return read_pictures(Path(self.data), self.annotations, self.images)


@dataclass(frozen=True)
class DetectorOptions(TrainingOptions, PictureOptions):
    """A region proposal network on a pretrained backbone, trained on boxes without names."""

    strict: bool = option(False, "stop at a corrupt picture instead of leaving it out")
    iterations: int = option(600, "number of steps")
    batch_size: int = option(8, "images per step, over all processes together")
    new_lr: float = option(0.02, "learning rate of layers that start from random values")
    warmup: int = option(50, "steps over which the learning rate rises")
    backbone: str = option("efficientnet_lite0", "network; see newfound_core.backbones")
    weights: str = option("imagenet", "imagenet, a file of tensors, or random")
    stages: int = option(0, "keep only so many stages of the network; 0 is all")
    frozen_stages: int = option(3, "stem and stages whose weights stay")
    image_size: int = option(320, "pixels; the whole picture is squeezed into a square")
    channels: int = option(64, "of the feature pyramid")
    strides: tuple[int, ...] = option((8, 16, 32), "of the maps that boxes are proposed from")
    anchor_sizes: tuple[float, ...] = option((24.0, 48.0, 96.0), "pixels, one for each stride")
    leave_out: tuple[str, ...] = option(
        (), "classes whose pictures are not trained on, so that they stay unknown"
    )
    validation_share: float = option(0.1, "of the pictures, held out to measure recall")
    colour_jitter: float = option(0.3, "random brightness, contrast and saturation")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frozen_stages < 0:
            raise ConfigError(f"frozen_stages must not be negative, got {self.frozen_stages}")
        if not 0 <= self.validation_share < 1:
            raise ConfigError(f"validation_share must be in [0, 1), got {self.validation_share}")
