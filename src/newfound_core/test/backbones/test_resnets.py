# SPDX-License-Identifier: Apache-2.0
import pytest
from torch import nn

from newfound_core.backbones import build_backbone


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
