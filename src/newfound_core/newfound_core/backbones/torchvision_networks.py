# SPDX-License-Identifier: Apache-2.0
"""Networks of torchvision: AlexNet, ResNet, MobileNet.

`alexnet_bn` normalises each fully connected layer, and `resnet10` has one block per stage, as the
thesis's networks do.
"""

from collections import OrderedDict
from typing import cast

from torch import nn
from torchvision.models import (
    AlexNet,
    mobilenet_v2,
    mobilenet_v3_large,
    mobilenet_v3_small,
    resnet18,
    resnet50,
)
from torchvision.models.resnet import BasicBlock, ResNet

from newfound_core.backbones.contract import Backbone, Recipe, global_pool
from newfound_core.backbones.weights import torchvision_weights


def _create_alexnet(dropout: float = 0.5) -> AlexNet:
    return AlexNet(dropout=dropout)


def _assemble_alexnet(network: nn.Module, batch_norm: bool = False) -> Backbone:
    """Stem: conv1 and pool1. Stages: to pool5. Head: fc6 and fc7, of 4096 values each."""
    assert isinstance(network, AlexNet)
    layers = network.features
    stages = OrderedDict(
        conv2=layers[3:6], conv3=layers[6:8], conv4=layers[8:10], conv5=layers[10:13]
    )
    return Backbone(
        layers[0:3],
        stages,
        _alexnet_head(network, batch_norm),
        stem_channels=64,
        feature_dim=4096,
        branch_point=len(stages),
        early_channels=256,
    )


def _alexnet_head(network: AlexNet, batch_norm: bool) -> nn.Sequential:
    """The pretrained fully connected layers, each with BN before its activation if asked for."""
    drop6, fc6, relu6, drop7, fc7, relu7, _classifier = network.classifier
    head: OrderedDict[str, nn.Module] = OrderedDict(pool=network.avgpool, flat=nn.Flatten(1))
    head.update(drop6=drop6, fc6=fc6)
    if batch_norm:
        head["norm6"] = nn.BatchNorm1d(4096)
    head.update(act6=relu6, drop7=drop7, fc7=fc7)
    if batch_norm:
        head["norm7"] = nn.BatchNorm1d(4096)
    head["act7"] = relu7
    return nn.Sequential(head)


def _assemble_alexnet_bn(network: nn.Module) -> Backbone:
    """Load as AlexNet does; the new BN layers start at mean 0 and variance 1.

    The thesis also normalises the classifier's output; that layer belongs to the classifier.
    """
    return _assemble_alexnet(network, batch_norm=True)


_ALEXNET_WEIGHTS = torchvision_weights("alexnet")
_ALEXNET = {
    "alexnet": Recipe(_create_alexnet, _assemble_alexnet, ("classifier.6.",), _ALEXNET_WEIGHTS),
    "alexnet_bn": Recipe(
        _create_alexnet, _assemble_alexnet_bn, ("classifier.6.",), _ALEXNET_WEIGHTS
    ),
}


def _assemble_resnet(network: nn.Module) -> Backbone:
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


_RESNET = {
    "resnet10": Recipe(_resnet10, _assemble_resnet, ("fc.",)),
    "resnet18": Recipe(resnet18, _assemble_resnet, ("fc.",), torchvision_weights("resnet18")),
    "resnet50": Recipe(resnet50, _assemble_resnet, ("fc.",), torchvision_weights("resnet50")),
}


def _assemble_mobilenet(network: nn.Module) -> Backbone:
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


_MOBILENETS = {
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3_small": mobilenet_v3_small,
    "mobilenet_v3_large": mobilenet_v3_large,
}
_MOBILENET = {
    name: Recipe(create, _assemble_mobilenet, ("classifier.",), torchvision_weights(name))
    for name, create in _MOBILENETS.items()
}

RECIPES = {**_ALEXNET, **_RESNET, **_MOBILENET}
