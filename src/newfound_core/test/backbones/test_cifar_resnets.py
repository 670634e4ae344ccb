# SPDX-License-Identifier: Apache-2.0
import copy

import pytest
import torch
from torchvision.models import resnet

from newfound_core.backbones import build_backbone
from newfound_core.backbones.cifar_resnets import BasicBlock
from newfound_core.errors import ConfigError


@torch.no_grad()
def test_the_basic_block_is_torchvisions():
    ours, theirs = BasicBlock(4, 4).eval(), resnet.BasicBlock(4, 4).eval()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(ours(x), theirs(x))


def test_gradients_of_a_narrow_network_are_right_in_channels_last():
    torch.manual_seed(0)
    network = build_backbone("cifar_resnet8", width=0.25).eval()
    exact = copy.deepcopy(network).double()
    images = torch.randn(16, 3, 32, 32)
    exact(images.double()).square().sum().backward()
    network.to(memory_format=torch.channels_last)
    network(images.contiguous(memory_format=torch.channels_last)).square().sum().backward()
    for (name, ours), right in zip(network.named_parameters(), exact.parameters(), strict=True):
        error = (ours.grad - right.grad).norm() / right.grad.norm()
        assert error < 1e-4, name


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
