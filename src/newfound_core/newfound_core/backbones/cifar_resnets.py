# SPDX-License-Identifier: Apache-2.0
"""Narrow ResNets for 32 px images."""

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
        return self.relu(y + self.downsample(x))


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
        shortcut = nn.Sequential(
            nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after)
        )
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


_WIDE, _NARROW = (64, 128, 256, 512), (16, 32, 64)

RECIPES = {
    "cifar_resnet8": Recipe(partial(_cifar, (1, 1, 1), _NARROW), _assemble),
    "cifar_resnet18": Recipe(partial(_cifar, (2, 2, 2, 2), _WIDE), _assemble),
    "cifar_resnet20": Recipe(partial(_cifar, (3, 3, 3), _NARROW), _assemble),
    "cifar_resnet32": Recipe(partial(_cifar, (5, 5, 5), _NARROW), _assemble),
}
