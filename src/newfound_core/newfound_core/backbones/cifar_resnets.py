# SPDX-License-Identifier: Apache-2.0
"""Narrow ResNets for 32 px images, and the wide one of the Visual Decathlon (64 px)."""

from collections import OrderedDict
from functools import partial

from torch import Tensor, nn

from newfound_core.backbones.contract import Backbone, Recipe, global_pool
from newfound_core.errors import ConfigError


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a way around them; its tensors have torchvision's names."""

    def __init__(
        self, before: int, after: int, stride: int = 1, shortcut: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample = shortcut or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """The map after the block."""
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        # A 1x1 convolution with a stride, written without one: oneDNN's gradient of it is wrong
        # and overwrites memory below 16 channels in channels_last (oneDNN issue 6035).
        step = self.conv1.stride[0]
        kept = x[..., ::step, ::step] if step > 1 else x
        return self.relu(y + self.downsample(kept))


class CifarResNet(nn.Module):
    """A ResNet of basic blocks that keeps a 32 px image large: a 3x3 stem without pooling."""

    def __init__(self, blocks: tuple[int, ...], channels: tuple[int, ...]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, channels[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels[0])
        self.relu = nn.ReLU(inplace=True)
        before = channels[0]
        self.stage_names = []
        for number, (count, after) in enumerate(zip(blocks, channels, strict=True), start=1):
            self.stage_names.append(f"layer{number}")
            stride = 1 if number == 1 else 2
            self.add_module(self.stage_names[-1], _stage(before, after, count, stride))
            before = after
        self.feature_dim = before
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, image: Tensor) -> Tensor:
        """The feature vector."""
        x = self.relu(self.bn1(self.conv1(image)))
        for name in self.stage_names:
            x = self.get_submodule(name)(x)
        return x.mean((2, 3))


def _stage(before: int, after: int, count: int, stride: int) -> nn.Sequential:
    shortcut = None
    if stride != 1 or before != after:
        shortcut = nn.Sequential(nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after))
    rest = [BasicBlock(after, after) for _ in range(count - 1)]
    return nn.Sequential(BasicBlock(before, after, stride, shortcut), *rest)


def _cifar(blocks: tuple[int, ...], channels: tuple[int, ...], width: float = 1.0) -> CifarResNet:
    """`width` scales the number of channels: 0.25 is the quarter-width network."""
    if not 0 < width <= 8:
        raise ConfigError(f"width must be in (0, 8], got {width}")
    return CifarResNet(blocks, tuple(max(1, round(width * c)) for c in channels))


def _assemble(network: nn.Module) -> Backbone:
    assert isinstance(network, CifarResNet)
    return Backbone(
        nn.Sequential(OrderedDict(conv=network.conv1, norm=network.bn1, act=network.relu)),
        OrderedDict((name, network.get_submodule(name)) for name in network.stage_names),
        global_pool(),
        stem_channels=network.conv1.out_channels,
        feature_dim=network.feature_dim,
    )


class WideBlock(nn.Module):
    """Normalisation and activation before each of two 3x3 convolutions, and a way around them.

    S. Zagoruyko, N. Komodakis, "Wide Residual Networks", BMVC 2016, arXiv:1605.07146.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.relu = nn.ReLU(inplace=True)
        self.changes = stride != 1 or before != after
        if self.changes:
            self.shortcut = nn.Conv2d(before, after, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The map after the block."""
        active = self.relu(self.bn1(x))
        y = self.conv2(self.relu(self.bn2(self.conv1(active))))
        return y + (self.shortcut(active) if self.changes else x)


def _create_wide(width: int = 4, blocks: int = 4) -> nn.Sequential:
    """`blocks` in each of three stages: 6 blocks + 4 layers, 28 as published."""
    if not 1 <= width <= 20 or not 1 <= blocks <= 20:
        raise ConfigError(f"width and blocks must be from 1 to 20, got {width}, {blocks}")
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(3, 16, 3, padding=1, bias=False)
    )
    before = 16
    for number, (channels, stride) in enumerate(((16, 1), (32, 2), (64, 2)), start=1):
        after = width * channels
        rest = [WideBlock(after, after, 1) for _ in range(blocks - 1)]
        layers[f"layer{number}"] = nn.Sequential(WideBlock(before, after, stride), *rest)
        before = after
    layers["last"] = nn.Sequential(nn.BatchNorm2d(before), nn.ReLU(inplace=True))
    network = nn.Sequential(layers)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def _assemble_wide(network: nn.Module) -> Backbone:
    assert isinstance(network, nn.Sequential)
    layers = OrderedDict(network.named_children())
    stem, last = layers.pop("conv1"), layers["last"][0]  # type: ignore[index]
    return Backbone(stem, layers, global_pool(), stem_channels=16, feature_dim=last.num_features)


_WIDE, _NARROW = (64, 128, 256, 512), (16, 32, 64)

RECIPES = {
    "cifar_resnet8": Recipe(partial(_cifar, (1, 1, 1), _NARROW), _assemble),
    "cifar_resnet18": Recipe(partial(_cifar, (2, 2, 2, 2), _WIDE), _assemble),
    "wide_resnet28": Recipe(_create_wide, _assemble_wide),
    "cifar_resnet20": Recipe(partial(_cifar, (3, 3, 3), _NARROW), _assemble),
    "cifar_resnet32": Recipe(partial(_cifar, (5, 5, 5), _NARROW), _assemble),
}
