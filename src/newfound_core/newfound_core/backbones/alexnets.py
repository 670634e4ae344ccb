# SPDX-License-Identifier: Apache-2.0
"""AlexNet, and the thesis's variant with batch normalisation after its fully connected layers."""

from collections import OrderedDict

from torch import nn
from torchvision.models import AlexNet

from newfound_core.backbones.contract import Backbone
from newfound_core.backbones.recipe import Recipe
from newfound_core.backbones.weights import torchvision_weights


def _create(dropout: float = 0.5) -> AlexNet:
    return AlexNet(dropout=dropout)


def _assemble(network: nn.Module, batch_norm: bool = False) -> Backbone:
    """Stem: conv1 and pool1. Stages: to pool5. Head: fc6 and fc7, of 4096 values each."""
    assert isinstance(network, AlexNet)
    layers = network.features
    stages = OrderedDict(
        conv2=layers[3:6], conv3=layers[6:8], conv4=layers[8:10], conv5=layers[10:13]
    )
    return Backbone(
        layers[0:3],
        stages,
        _head(network, batch_norm),
        stem_channels=64,
        feature_dim=4096,
        branch_point=len(stages),
        early_channels=256,
    )


def _head(network: AlexNet, batch_norm: bool) -> nn.Sequential:
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


def _assemble_with_bn(network: nn.Module) -> Backbone:
    """Loads as AlexNet does; the new BN layers start at mean 0 and variance 1.

    The thesis also normalises the classifier's output; that layer belongs to the classifier.
    """
    return _assemble(network, batch_norm=True)


_IMAGENET = torchvision_weights("alexnet")
RECIPES = {
    "alexnet": Recipe(_create, _assemble, ("classifier.6.",), _IMAGENET),
    "alexnet_bn": Recipe(_create, _assemble_with_bn, ("classifier.6.",), _IMAGENET),
}
