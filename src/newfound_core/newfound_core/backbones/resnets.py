# SPDX-License-Identifier: Apache-2.0
"""torchvision's ResNets, and the thesis's ResNet-10."""

from collections import OrderedDict

from torch import nn
from torchvision.models import resnet18, resnet50
from torchvision.models.resnet import BasicBlock, ResNet

from newfound_core.backbones.contract import Backbone, global_pool
from newfound_core.backbones.recipe import Recipe
from newfound_core.backbones.weights import torchvision_weights


def _assemble(network: nn.Module) -> Backbone:
    assert isinstance(network, ResNet)
    stem = OrderedDict(
        conv=network.conv1, norm=network.bn1, act=network.relu, pool=network.maxpool
    )
    names = ("layer1", "layer2", "layer3", "layer4")
    return Backbone(
        nn.Sequential(stem),
        OrderedDict((name, network.get_submodule(name)) for name in names),
        global_pool(),
        stem_channels=network.conv1.out_channels,
        feature_dim=network.fc.in_features,
    )


def _resnet10() -> ResNet:
    return ResNet(BasicBlock, [1, 1, 1, 1])


RECIPES = {
    "resnet10": Recipe(_resnet10, _assemble, ("fc.",)),
    "resnet18": Recipe(resnet18, _assemble, ("fc.",), torchvision_weights("resnet18")),
    "resnet50": Recipe(resnet50, _assemble, ("fc.",), torchvision_weights("resnet50")),
}
