# SPDX-License-Identifier: Apache-2.0
"""Class-agnostic object proposals from colour, ranked by how well each box fits.

D. Kim, T.-Y. Lin, A. Angelova, I. S. Kweon, W. Kuo: Learning Open-World Object Proposals without
Learning to Classify, IEEE RA-L 2022, arXiv:2108.06753. Boxes as in Z. Tian, C. Shen, H. Chen,
T. He: FCOS, ICCV 2019, arXiv:1904.01355; the quality loss is that of X. Li et al.: Generalized
Focal Loss, NeurIPS 2020, arXiv:2006.04388, eq. 4.

    image ─► backbone ─► maps at strides 8, 16, 32 ─► feature pyramid ─► boxes and quality
                                                             └─► RoIAlign ─► refined ones

Every place p of a map of stride s predicts a box by its distances to the four sides,
s exp(l, t, r, b), and its quality q, the IoU that the box is expected to have:

    L_box = 1 - GIoU(box, object)                                   in the middle of objects
    L_quality = (q - IoU)^2 BCE(q, IoU)                             everywhere

No class, nor foreground against background, is learned. Where no labelled object is, the
quality's loss has a small weight: what is unlabelled is not proven to be background.
The second stage looks at the best boxes once more and does the same; a box's objectness is the
geometric mean of both qualities, as in the paper, and calibrated: sigmoid(slope logit + offset).
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models.detection._utils import BoxCoder
from torchvision.ops import (
    FeaturePyramidNetwork,
    MultiScaleRoIAlign,
    clip_boxes_to_image,
    nms,
)

from newfound_core.backbones import Backbone
from newfound_core.detection.region_losses import jittered, place_losses, refinement_losses
from newfound_core.errors import ConfigError

_GROUPS = 8  # of group normalisation: batches are small


@dataclass(frozen=True)
class RegionConfig:
    """The shape of the network behind its backbone."""

    channels: int = 64  # of the feature pyramid
    strides: tuple[int, ...] = (8, 16, 32)
    layers: int = 2  # convolutions before the prediction
    refined: int = 64  # boxes that the second stage looks at; 0: there is none
    hidden: int = 256  # width of the second stage
    rounds: int = 2  # times that the second stage looks at a box, each time where it moved it
    max_overlap: float = 0.6  # IoU of two proposals
    count: int = 100  # proposals at most
    slope: float = 1.0  # of the objectness' logit, fitted on held-out pictures (Platt scaling)
    offset: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "strides", tuple(sorted(self.strides)))  # a list after JSON
        if not self.strides or self.channels % _GROUPS or self.channels < 1:
            raise ConfigError(
                f"strides must not be empty and channels a multiple of {_GROUPS}, got {self}"
            )
        if min(self.layers, self.count, self.hidden, self.rounds) < 1 or self.refined < 0:
            raise ConfigError(f"layers, count, hidden and rounds must be positive, got {self}")
        if not 0 < self.max_overlap <= 1 or self.slope <= 0:
            raise ConfigError(f"max_overlap must be in (0, 1] and slope positive, got {self}")


class RegionHead(nn.Module):
    """Four distances and a quality at each place, by the same weights on every map."""

    def __init__(self, channels: int, layers: int, levels: int) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for _ in range(layers):
            parts += [
                nn.Conv2d(channels, channels, 3, padding=1, bias=False),
                nn.GroupNorm(_GROUPS, channels),
                nn.ReLU(inplace=True),
            ]
        self.tower = nn.Sequential(*parts)
        self.distances = nn.Conv2d(channels, 4, 3, padding=1)
        self.quality = nn.Conv2d(channels, 1, 3, padding=1)
        self.scales = nn.Parameter(torch.ones(levels))
        _initialise(self.distances, 0.01, 0.7)  # boxes of four strides to begin with
        _initialise(self.quality, 0.01, -2.0)

    def forward(self, maps: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Distances in strides [B, places, 4] and logits of quality [B, places] by map."""
        found = []
        for scale, x in zip(self.scales, maps, strict=True):
            y = self.tower(x)
            distances = (scale * self.distances(y)).clamp(max=5.0).exp()
            found.append((distances.flatten(2).mT, self.quality(y).flatten(1)))
        return found


class Refinement(nn.Module):
    """The second stage: a better box and its quality, from the features inside of a box."""

    def __init__(self, channels: int, hidden: int, names: list[str]) -> None:
        super().__init__()
        # A box of 112 pixels is looked at on the map of stride 16.
        self.align = MultiScaleRoIAlign(names, 5, 2, canonical_scale=112, canonical_level=4)
        self.layers = nn.Sequential(
            nn.Flatten(1),
            nn.Linear(25 * channels, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
        )
        self.offsets = nn.Linear(hidden, 4)
        self.quality = nn.Linear(hidden, 1)
        _initialise(self.offsets, 0.001, 0.0)
        _initialise(self.quality, 0.001, 0.0)
        self.coder = BoxCoder((10.0, 10.0, 5.0, 5.0))

    def forward(
        self, maps: "OrderedDict[str, Tensor]", boxes: list[Tensor], size: tuple[int, int]
    ) -> tuple[Tensor, Tensor]:
        """Refined boxes [N, 4] and logits of their quality [N], over all images' boxes."""
        x = self.layers(self.align(maps, boxes, [size] * len(boxes)))
        refined = self.coder.decode_single(self.offsets(x), torch.cat(boxes)).view(-1, 4)
        return refined, self.quality(x).flatten()


class RegionNetwork(nn.Module):
    """From images to boxes with objectness."""

    def __init__(self, backbone: Backbone, config: RegionConfig | None = None) -> None:
        super().__init__()
        self.config = config or RegionConfig()
        self.backbone = backbone
        self._taps, channels = _taps(backbone, self.config.strides)
        width, names = self.config.channels, [str(stride) for stride in self.config.strides]
        self.pyramid = FeaturePyramidNetwork(channels, width)
        self.head = RegionHead(width, self.config.layers, len(names))
        self.refinement = (
            Refinement(width, self.config.hidden, names) if self.config.refined else None
        )

    def train(self, mode: bool = True) -> "RegionNetwork":
        """Statistics of the backbone's batch normalisation stay those of its pretraining."""
        super().train(mode)
        for module in self.backbone.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self

    def forward(self, images: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Boxes [N, 4] and objectness [N] of each image [B, 3, H, W], best first."""
        maps, size = self.features(images), _size(images)
        boxes, logits = self._predict(maps, size)
        kept = [self._best(b, q, self.config.refined or self.config.count)
                for b, q in zip(boxes, logits.sigmoid(), strict=True)]  # fmt: skip
        if self.refinement is None:
            return [(b, self._calibrated(q)) for b, q in kept]
        refined = [b for b, _ in kept]
        counts = [len(b) for b in refined]
        for _ in range(self.config.rounds):
            moved, again = self.refinement(maps, refined, size)
            refined = list(clip_boxes_to_image(moved, size).split(counts))
        return [
            self._best(b, self._calibrated((first * q.sigmoid()).sqrt()), self.config.count)
            for b, q, (_, first) in zip(refined, again.split(counts), kept, strict=True)
        ]

    def losses(
        self, images: Tensor, boxes: Sequence[Tensor], background_weight: float = 0.25
    ) -> dict[str, Tensor]:
        """Losses on images whose objects are known, by name; both stages."""
        maps, size = self.features(images), _size(images)
        found, logits = self._predict(maps, size, clip=False)
        places, strides = self._places(maps)
        losses = place_losses(
            found, logits, boxes, places, strides, background_weight=background_weight
        )
        if self.refinement is None:
            return losses
        seen = [
            torch.cat([self._best(of_image, logit, self.config.refined)[0], jittered(truth)])
            for of_image, logit, truth in zip(
                clip_boxes_to_image(found.detach(), size), logits.detach(), boxes, strict=True
            )
        ]
        refined, again = self.refinement(maps, seen, size)
        counts = [len(b) for b in seen]
        return losses | refinement_losses(
            seen,
            refined.split(counts),
            again.split(counts),
            boxes,
            background_weight=background_weight,
        )

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
        return asdict(self.config) | {"strides": list(self.config.strides)}

    def _predict(
        self, maps: "OrderedDict[str, Tensor]", size: tuple[int, int], clip: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Boxes [B, places, 4] and logits of their quality [B, places], over all maps."""
        places, strides = self._places(maps)
        predictions = self.head(list(maps.values()))
        distances = torch.cat([d for d, _ in predictions], 1) * strides[:, None]
        boxes = torch.cat([places - distances[..., :2], places + distances[..., 2:]], -1)
        logits = torch.cat([q for _, q in predictions], 1)
        return (clip_boxes_to_image(boxes, size) if clip else boxes), logits

    def _places(self, maps: "OrderedDict[str, Tensor]") -> tuple[Tensor, Tensor]:
        """Where each cell of the maps is in the image [places, 2], and its stride [places]."""
        places, strides = [], []
        for stride, x in zip(self.config.strides, maps.values(), strict=True):
            rows, columns = (
                (torch.arange(n, device=x.device) + 0.5) * stride for n in x.shape[-2:]
            )
            grid = torch.meshgrid(columns, rows, indexing="xy")
            places.append(torch.stack(grid, -1).view(-1, 2))
            strides.append(places[-1].new_full((len(places[-1]),), float(stride)))
        return torch.cat(places), torch.cat(strides)

    def _calibrated(self, quality: Tensor) -> Tensor:
        logits = torch.logit(quality, 1e-6)
        return (self.config.slope * logits + self.config.offset).sigmoid()

    def _best(self, boxes: Tensor, quality: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The best boxes that do not overlap too much."""
        top = quality.topk(min(len(quality), 4 * count)).indices
        kept = top[nms(boxes[top], quality[top], self.config.max_overlap)[:count]]
        return boxes[kept], quality[kept]


def _initialise(layer: nn.Conv2d | nn.Linear, std: float, bias: float) -> None:
    nn.init.normal_(layer.weight, std=std)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias)


def _size(images: Tensor) -> tuple[int, int]:
    return images.shape[-2], images.shape[-1]


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
