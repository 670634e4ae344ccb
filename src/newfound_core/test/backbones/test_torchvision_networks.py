# SPDX-License-Identifier: Apache-2.0

import pytest
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

from newfound_core.backbones import build_backbone

IMAGE = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_alexnets_features_are_the_librarys_up_to_the_classifier(tmp_path):
    network = torchvision.models.alexnet(num_classes=7).eval()
    save_file(network.state_dict(), tmp_path / "w.safetensors")
    backbone = build_backbone("alexnet", tmp_path / "w.safetensors").eval()
    torch.testing.assert_close(network.classifier[6](backbone(IMAGE)), network(IMAGE))


def test_the_thesis_variant_normalises_each_fully_connected_layer_before_its_activation():
    head = list(build_backbone("alexnet_bn").head)
    linear = [i for i, layer in enumerate(head) if isinstance(layer, nn.Linear)]
    assert len(linear) == 2
    for i in linear:
        assert isinstance(head[i + 1], nn.BatchNorm1d)
        assert isinstance(head[i + 2], nn.ReLU)


@torch.no_grad()
def test_the_variant_starts_from_the_same_weights(tmp_path):
    network = torchvision.models.alexnet().eval()
    save_file(network.state_dict(), tmp_path / "w.safetensors")
    plain = build_backbone("alexnet", tmp_path / "w.safetensors").eval()
    variant = build_backbone("alexnet_bn", tmp_path / "w.safetensors").eval()
    # BN of mean 0 and variance 1 divides by sqrt(1 + 1e-5), twice at most.
    torch.testing.assert_close(variant(IMAGE), plain(IMAGE), rtol=1e-4, atol=1e-6)


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
