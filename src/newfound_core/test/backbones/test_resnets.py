# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from newfound_core.backbones import build_backbone
from newfound_core.errors import ConfigError
from torch import nn


def weighted_layers(backbone):
    """Convolutions on the main path, shortcuts left out, and one for the classifier to come."""
    names = [n for n, m in backbone.named_modules() if isinstance(m, nn.Conv2d)]
    return sum("downsample" not in name for name in names) + 1


@pytest.mark.parametrize(
    ("name", "depth", "features"),
    [
        ("resnet10", 10, 512),
        ("resnet18", 18, 512),
        ("resnet50", 50, 2048),
        ("cifar_resnet18", 18, 512),
        ("cifar_resnet20", 20, 64),
        ("cifar_resnet32", 32, 64),
    ],
)
def test_the_number_in_the_name_counts_the_layers(name, depth, features):
    backbone = build_backbone(name)
    assert weighted_layers(backbone) == depth
    assert backbone.feature_dim == features


def test_cifar_networks_keep_a_small_image_large():
    backbone = build_backbone("cifar_resnet20")
    assert backbone.stem(torch.zeros(1, 3, 32, 32)).shape == (1, 16, 32, 32)
    assert backbone.feature_map(torch.zeros(1, 3, 32, 32)).shape == (1, 64, 8, 8)


@pytest.mark.parametrize(("width", "features"), [(0.25, 128), (0.5, 256), (2, 1024)])
def test_width_scales_the_channels(width, features):
    assert build_backbone("cifar_resnet18", width=width).feature_dim == features


@pytest.mark.parametrize("width", [0, -1, 100])
def test_an_absurd_width_is_refused(width):
    with pytest.raises(ConfigError, match="width"):
        build_backbone("cifar_resnet18", width=width)
