# SPDX-License-Identifier: Apache-2.0
"""A light network for segmentation: a dilated backbone, and one linear classifier per class.

    stem, stages ─► a: stride 8           last stages dilated ─► h: stride 16
    u = sigmoid(conv1x1(mean(h))) · ReLU(BN(conv1x1(h)))          enlarged to stride 8
    l = ReLU(BN(conv1x1(a)))
    logits = classifier(ReLU(BN(conv1x1(ReLU(BN(depthwise3x3([u, l])))))))

The head is in the manner of LR-ASPP: A. Howard et al., "Searching for MobileNetV3", ICCV 2019,
arXiv:1905.02244. Head `aspp` is DeepLab-v3's, which MiB was published with: L.-C. Chen et al.,
arXiv:1706.05587.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.backbones import Backbone
from newfound_core.errors import ConfigError
from newfound_core.onda.config import is_layer_choice
from newfound_core.segmentation.losses import enlarged

Head = Literal["lraspp", "aspp"]
_RATES = (6, 12, 18)  # dilations of ASPP at stride 16
_LEAST_SHARE = 1e-6  # of a picture, below which a class is as good as absent


@dataclass(frozen=True)
class SegmentationConfig:
    """The shape of the network behind its backbone, and what the robot needs to know of it."""

    head: Head = "lraspp"
    width: int = 128  # channels that the classifier sees
    low_width: int = 32  # channels of the finer map; of `lraspp` only
    low_stride: int = 8  # of the finer map; of `lraspp` only
    output_stride: int = 16  # of the coarser map: stages beyond are dilated instead
    steps: tuple[int, ...] = ()  # numbers of classes learned together, without the background
    adaptive_layers: str = "all"  # normalisation layers that ONDA moves, as OndaConfig.layers
    source_confidence: float | None = None  # mean over held-out pixels; ONDA's need to adapt

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))  # a list after JSON
        if self.head not in get_args(Head):
            raise ConfigError(f"head must be one of {get_args(Head)}, got {self.head!r}")
        if min(self.width, self.low_width, self.low_stride, self.output_stride) < 1:
            raise ConfigError(f"widths and strides must be positive, got {self}")
        if any(type(n) is not int or n < 1 for n in self.steps):
            raise ConfigError(f"steps must be numbers of classes, got {self.steps}")
        if self.adaptive_layers == "auto" or not is_layer_choice(self.adaptive_layers):
            raise ConfigError(
                f"adaptive_layers must be all or last:n, got {self.adaptive_layers!r}"
            )
        if self.source_confidence is not None and not 0 < self.source_confidence <= 1:
            raise ConfigError(f"source_confidence must be in (0, 1], got {self.source_confidence}")


class PixelLogits(NamedTuple):
    """What the network returns."""

    pixels: Tensor  # [N, classes, h, w], at the stride of the finest map
    logits: Tensor  # [N, classes] of the whole picture, by which ONDA judges; see `summary`


class SegmentationNetwork(nn.Module):
    """From images to logits of every class at every place; channel 0 is the background."""

    def __init__(
        self, backbone: Backbone, classes: int, config: SegmentationConfig | None = None
    ) -> None:
        super().__init__()
        self.config = config or SegmentationConfig()
        if classes < 1:
            raise ConfigError(f"a network needs at least the background, got {classes} classes")
        self.backbone = backbone
        maps = dilate(backbone, self.config.output_stride)
        self._tap, low = 0, 0
        if self.config.head == "lraspp":
            self._tap, low = _tap(maps, self.config.low_stride)
        high = maps[-1][1]
        self.head: nn.Module = (
            LiteHead(high, low, self.config.width, self.config.low_width)
            if self.config.head == "lraspp"
            else AsppHead(high, self.config.width)
        )
        self.classifier = nn.Conv2d(self.config.width, classes, 1)

    @property
    def classes(self) -> int:
        """The number of classes, the background included."""
        return self.classifier.out_channels

    @property
    def adaptive_layers(self) -> str:
        """Normalisation layers that ONDA moves."""
        return self.config.adaptive_layers

    @property
    def source_confidence(self) -> float | None:
        """Mean confidence on held-out pictures."""
        return self.config.source_confidence

    def forward(self, images: Tensor) -> PixelLogits:
        """Logits of images [N, 3, H, W]."""
        pixels = self.finish(self.begin(images, 0), 0)
        return PixelLogits(pixels, summary(pixels))

    # In two halves, so that what frozen layers compute can be kept.

    def begin(self, images: Tensor, parts: int) -> tuple[Tensor, ...]:
        """What the stem and the first stages, `parts` together, hand on: one map or two."""
        maps = self._through((images,), 0, parts)
        return maps[:1] if parts == self._tap else maps  # both are the same map there

    def further(self, maps: Sequence[Tensor], parts: int, more: int) -> tuple[Tensor, ...]:
        """What `begin` returns with more parts, from what it returned."""
        return self._through(self._both(maps, parts), parts, more)

    def finish(self, maps: Sequence[Tensor], parts: int) -> Tensor:
        """The pixels' logits, from what `begin` returned."""
        last = 1 + len(self.backbone.stages)
        return self.classifier(self.head(*self.further(maps, parts, last)))

    def _both(self, maps: Sequence[Tensor], parts: int) -> tuple[Tensor, ...]:
        return (maps[0], maps[0]) if parts and parts == self._tap else tuple(maps)

    def _through(self, maps: tuple[Tensor, ...], first: int, last: int) -> tuple[Tensor, ...]:
        x, *low = maps
        parts = [self.backbone.stem, *self.backbone.stages]
        for number, part in enumerate(parts[first:last], first + 1):
            x = part(x)
            if number == self._tap:
                low = [x]
        return (x, *low)

    def options(self) -> dict[str, Any]:
        """What makes the same network again, besides its backbone and classes."""
        return asdict(self.config) | {"steps": list(self.config.steps)}

    def with_config(self, **changes: Any) -> None:
        """Change what the configuration says about the robot's use, not the layers."""
        self.config = replace(self.config, **changes)


class LiteHead(nn.Module):
    """Coarse and fine map to the features that the classifier sees."""

    def __init__(self, high: int, low: int, width: int, low_width: int) -> None:
        super().__init__()
        self.gate = nn.Conv2d(high, width, 1)
        self.high = _normalised(nn.Conv2d(high, width, 1, bias=False))
        self.low = _normalised(nn.Conv2d(low, low_width, 1, bias=False))
        both = width + low_width
        self.depthwise = _normalised(nn.Conv2d(both, both, 3, padding=1, groups=both, bias=False))
        self.pointwise = _normalised(nn.Conv2d(both, width, 1, bias=False))

    def forward(self, high: Tensor, low: Tensor) -> Tensor:
        """Features at the stride of the fine map."""
        gate = self.gate(high.mean((2, 3), keepdim=True)).sigmoid()
        u = enlarged(gate * self.high(high), _size(low))
        return self.pointwise(self.depthwise(torch.cat([u, self.low(low)], 1)))


class AsppHead(nn.Module):
    """Atrous spatial pyramid pooling: one map, looked at with several dilations."""

    def __init__(self, high: int, width: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList([_normalised(nn.Conv2d(high, width, 1, bias=False))])
        for rate in _RATES:
            layer = nn.Conv2d(high, width, 3, padding=rate, dilation=rate, bias=False)
            self.branches.append(_normalised(layer))
        # Without normalisation: in a batch of one picture its variance would be zero.
        self.pooled = nn.Conv2d(high, width, 1)
        self.project = _normalised(nn.Conv2d((2 + len(_RATES)) * width, width, 1, bias=False))

    def forward(self, high: Tensor) -> Tensor:
        """Features at the stride of the map."""
        pooled = functional.relu(self.pooled(high.mean((2, 3), keepdim=True)))
        found = [branch(high) for branch in self.branches]
        return self.project(torch.cat([*found, pooled.expand(-1, -1, *_size(high))], 1))


def summary(pixels: Tensor) -> Tensor:
    """Log-probabilities of the picture [N, classes]: what ONDA looks at.

    The class that takes most of the picture has the mean confidence of the picture's pixels as
    its probability; the others share the rest as they share the picture.
    """
    probabilities = pixels.softmax(1)
    shares = probabilities.mean((2, 3)).clamp(min=_LEAST_SHARE)
    certain = probabilities.amax(1).mean((1, 2))[:, None].clamp(max=1 - _LEAST_SHARE)
    largest = shares.amax(1, keepdim=True)
    others = (1 - certain) * shares / (1 - largest).clamp(min=_LEAST_SHARE)
    return torch.where(shares == largest, certain, others).clamp(min=_LEAST_SHARE).log()


def dilate(backbone: Backbone, output_stride: int) -> list[tuple[int, int]]:
    """Keep maps at a stride by dilating later convolutions; stride and channels of each part.

    A convolution whose stride goes keeps its dilation, and those after it look further.
    """
    size = 4 * output_stride  # small: only sizes of maps are looked at
    training = backbone.training
    backbone.eval()
    found, dilation, current = [], 1, 1
    with torch.no_grad():
        x = torch.zeros(1, 3, size, size)
        for part in [backbone.stem, *backbone.stages]:
            stride = x.shape[-1] // part(x).shape[-1]
            wanted = stride if current * stride <= output_stride else 1
            dilation = _dilate(part, dilation, remove_stride=wanted != stride)
            x = part(x)
            current *= wanted
            if size // x.shape[-1] != current:
                raise ConfigError(
                    f"{backbone.name or 'this backbone'} cannot keep its maps at stride "
                    f"{output_stride}: they have {size // x.shape[-1]}"
                )
            found.append((current, x.shape[1]))
    backbone.train(training)
    return found


def _dilate(part: nn.Module, dilation: int, *, remove_stride: bool) -> int:
    factor = 1
    for layer in part.modules():
        if not isinstance(layer, nn.Conv2d):
            continue
        kernel, stride = layer.kernel_size[0], layer.stride[0]
        if kernel > 1:
            layer.dilation = (dilation * factor,) * 2
            layer.padding = (dilation * factor * (kernel - 1) // 2,) * 2
        if remove_stride and stride > 1:
            layer.stride = (1, 1)
            factor = stride
    return dilation * factor


def _tap(maps: Sequence[tuple[int, int]], stride: int) -> tuple[int, int]:
    """After how many parts the last map of a stride is, and its channels."""
    found = [(number, channels) for number, (s, channels) in enumerate(maps, 1) if s == stride]
    if not found:
        raise ConfigError(
            f"this backbone has no map of stride {stride}; it has {sorted({s for s, _ in maps})}"
        )
    return found[-1]


def _normalised(layer: nn.Conv2d) -> nn.Sequential:
    return nn.Sequential(layer, nn.BatchNorm2d(layer.out_channels), nn.ReLU(inplace=True))


def _size(x: Tensor) -> tuple[int, int]:
    return x.shape[-2], x.shape[-1]
