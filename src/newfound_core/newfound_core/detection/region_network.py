# SPDX-License-Identifier: Apache-2.0
"""A region proposal network (Faster R-CNN's first stage): where is something, whatever it is.

    image ─► backbone ─► maps at strides 8, 16, 32 ─► feature pyramid ─► objectness, boxes

The parts behind the backbone are torchvision's. There are no classes: all that is not background
is an object, so objects of no known class are found as well.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.rpn import (
    RegionProposalNetwork,
    RPNHead,
    concat_box_prediction_layers,
)
from torchvision.ops import FeaturePyramidNetwork

from newfound_core.backbones import Backbone
from newfound_core.errors import ConfigError


@dataclass(frozen=True)
class RegionConfig:
    """The shape of the network behind its backbone."""

    channels: int = 64  # of the feature pyramid
    strides: tuple[int, ...] = (8, 16, 32)
    anchor_sizes: tuple[float, ...] = (32.0, 64.0, 128.0)  # pixels, one for each stride
    aspect_ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    max_overlap: float = 0.6  # IoU of two proposals of one stride
    count: int = 100  # proposals at most

    def __post_init__(self) -> None:
        for name in (
            "strides",
            "anchor_sizes",
            "aspect_ratios",
        ):  # lists after a trip through JSON
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if len(self.strides) != len(self.anchor_sizes) or not self.strides:
            raise ConfigError(
                f"each stride has one anchor size, got {self.strides} and {self.anchor_sizes}"
            )
        if self.channels < 1 or self.count < 1 or not 0 < self.max_overlap <= 1:
            raise ConfigError(f"channels, count and max_overlap must be positive, got {self}")


class RegionNetwork(nn.Module):
    """From images to boxes with objectness."""

    def __init__(self, backbone: Backbone, config: RegionConfig | None = None) -> None:
        super().__init__()
        self.config = config or RegionConfig()
        self.backbone = backbone
        self._taps, channels = _taps(backbone, self.config.strides)
        self.pyramid = FeaturePyramidNetwork(channels, self.config.channels)
        sizes = tuple((size,) for size in self.config.anchor_sizes)
        anchors = AnchorGenerator(sizes, (self.config.aspect_ratios,) * len(sizes))
        self.proposals = RegionProposalNetwork(
            anchors,
            RPNHead(self.config.channels, len(self.config.aspect_ratios)),
            fg_iou_thresh=0.6,
            bg_iou_thresh=0.3,
            batch_size_per_image=64,
            positive_fraction=0.5,
            pre_nms_top_n={"training": 300, "testing": 300},
            post_nms_top_n={"training": self.config.count, "testing": self.config.count},
            nms_thresh=self.config.max_overlap,
        )

    def forward(self, images: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Boxes [N, 4] and objectness [N] of each image [B, 3, H, W], best first."""
        return scored_proposals(self.proposals, _listed(images), self.features(images))

    def losses(self, images: Tensor, boxes: Sequence[Tensor]) -> dict[str, Tensor]:
        """Objectness and box losses on images whose objects are known, by name."""
        targets = [{"boxes": of_image} for of_image in boxes]
        return self.proposals(_listed(images), self.features(images), targets)[1]

    def features(self, images: Tensor) -> "OrderedDict[str, Tensor]":
        """The feature pyramid of images, finest map first."""
        x, maps = self.backbone.stem(images), OrderedDict()
        for number, stage in enumerate(self.backbone.stages, start=1):
            x = stage(x)
            if number in self._taps:
                maps[str(self._taps[number])] = x
        return self.pyramid(maps)

    def options(self) -> dict[str, Any]:
        """What makes the same network again, besides its backbone."""
        return {
            "channels": self.config.channels,
            "strides": list(self.config.strides),
            "anchor_sizes": list(self.config.anchor_sizes),
            "aspect_ratios": list(self.config.aspect_ratios),
            "max_overlap": self.config.max_overlap,
            "count": self.config.count,
        }


def scored_proposals(
    network: RegionProposalNetwork, images: ImageList, maps: Mapping[str, Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """What torchvision's network proposes for each image, with the scores that it keeps back."""
    features = list(maps.values())
    objectness, deltas = network.head(features)
    anchors = network.anchor_generator(images, features)
    counts = [score[0].numel() for score in objectness]
    objectness, deltas = concat_box_prediction_layers(objectness, deltas)
    boxes = network.box_coder.decode(deltas, anchors).view(len(anchors), -1, 4)
    found, scores = network.filter_proposals(boxes, objectness, images.image_sizes, counts)
    return list(zip(found, scores, strict=True))


def _taps(backbone: Backbone, strides: Sequence[int]) -> tuple[dict[int, int], list[int]]:
    """After which stage each stride's last map is, and how many channels it has."""
    size = 8 * max(strides)
    x, last = torch.zeros(1, 3, size, size), {}
    training = backbone.training
    with torch.no_grad():
        x = backbone.eval().stem(x)
        for number, stage in enumerate(backbone.stages, start=1):
            x = stage(x)
            last[size // x.shape[-1]] = (number, x.shape[1])
    backbone.train(training)
    missing = [stride for stride in strides if stride not in last]
    if missing:
        raise ConfigError(
            f"this backbone has no map of stride {missing[0]}; it has {sorted(last)}"
        )
    used = sorted(strides)
    return {last[stride][0]: stride for stride in used}, [last[stride][1] for stride in used]


def _listed(images: Tensor) -> ImageList:
    height, width = images.shape[-2:]
    return ImageList(images, [(height, width)] * len(images))
