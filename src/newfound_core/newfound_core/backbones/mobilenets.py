# SPDX-License-Identifier: Apache-2.0
"""torchvision's MobileNets; the features are the pooled last 1x1 convolution."""

from collections import OrderedDict
from typing import cast

from torch import nn
from torchvision.models import mobilenet_v2, mobilenet_v3_large, mobilenet_v3_small

from newfound_core.backbones.contract import Backbone, global_pool
from newfound_core.backbones.recipe import Recipe
from newfound_core.backbones.weights import torchvision_weights


def _assemble(network: nn.Module) -> Backbone:
    stem, *blocks, last = cast(nn.Sequential, network.features)
    stages = OrderedDict((f"block{number}", block) for number, block in enumerate(blocks, 1))
    stages["last"] = last
    return Backbone(
        stem,
        stages,
        global_pool(),
        stem_channels=_convolution(stem).out_channels,
        feature_dim=_convolution(last).out_channels,
    )


def _convolution(block: nn.Module) -> nn.Conv2d:
    return next(module for module in block.modules() if isinstance(module, nn.Conv2d))


_CREATE = {
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3_small": mobilenet_v3_small,
    "mobilenet_v3_large": mobilenet_v3_large,
}
RECIPES = {
    name: Recipe(create, _assemble, ("classifier.",), torchvision_weights(name))
    for name, create in _CREATE.items()
}
