# SPDX-License-Identifier: Apache-2.0
"""Options of `train_detector`."""

from dataclasses import dataclass
from pathlib import Path

from newfound_core.errors import ConfigError
from newfound_training.detector.coco import Picture, PictureOptions
from newfound_training.detector.sources import read_sources
from newfound_training.running.options import option
from newfound_training.running.training import TrainingOptions


@dataclass(frozen=True)
class DetectorOptions(TrainingOptions, PictureOptions):
    """A region network on a pretrained backbone, trained on boxes without names."""

    sources: tuple[str, ...] = option(
        (), "folders in --data, in the format of COCO or of OSD; none: --data itself"
    )
    report_every: tuple[int, ...] = option(
        (), "for each source: the second picture of every so many is left for reporting; 0: none"
    )
    source_shares: tuple[float, ...] = option(
        (), "share of the batches from each source; none: by their numbers of pictures"
    )
    strict: bool = option(False, "stop at a corrupt picture instead of leaving it out")
    iterations: int = option(600, "number of steps")
    batch_size: int = option(8, "images per step, over all processes together")
    new_lr: float = option(0.02, "learning rate of layers that start from random values")
    warmup: int = option(50, "steps over which the learning rate rises")
    backbone: str = option("efficientnet_lite0", "network; see newfound_core.backbones")
    weights: str = option("imagenet", "imagenet, a file of tensors, or random")
    start: str = option("", "checkpoint of such a network to go on from, instead of new layers")
    stages: int = option(0, "keep only so many stages of the network; 0 is all")
    frozen_stages: int = option(3, "stem and stages whose weights stay")
    image_size: int = option(320, "pixels; the whole picture is squeezed into a square")
    channels: int = option(64, "of the feature pyramid")
    strides: tuple[int, ...] = option(
        (8, 16, 32), "of the feature maps that boxes are proposed from"
    )
    layers: int = option(2, "convolutions of the head")
    refined: int = option(64, "boxes that the second stage looks at; 0: no second stage")
    background_weight: float = option(
        0.25, "of the quality loss where no object is labelled; 0: unlabelled is not background"
    )
    leave_out: tuple[str, ...] = option(
        (), "classes whose pictures are not trained on, so that they stay unknown"
    )
    validation_share: float = option(0.1, "of the pictures, held out to measure recall")
    crop_area: float = option(0.3, "smallest share of a picture that is cropped from it")
    paste_probability: float = option(0.5, "of pasting objects of other pictures into one")
    colour_jitter: float = option(0.4, "random brightness, contrast and saturation")
    half: bool = option(True, "write the checkpoint's tensors in half precision")
    terms: tuple[str, ...] = option((), "licences of the sources, for the model card")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frozen_stages < 0:
            raise ConfigError(f"frozen_stages must not be negative, got {self.frozen_stages}")
        if not 0 <= self.validation_share < 1:
            raise ConfigError(f"validation_share must be in [0, 1), got {self.validation_share}")
        for name in ("background_weight", "paste_probability", "colour_jitter"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be in [0, 1], got {getattr(self, name)}")
        if self.source_shares and len(self.source_shares) != max(1, len(self.sources)):
            raise ConfigError("--source-shares has one number for each source")
        if any(share <= 0 for share in self.source_shares):
            raise ConfigError(f"source_shares must be positive, got {self.source_shares}")

    def by_source(self) -> dict[str, list[Picture]]:
        """The pictures that may be trained on."""
        if not self.sources:
            return {"data": self.pictures()}
        return read_sources(Path(self.data), self.sources, self.report_every)
