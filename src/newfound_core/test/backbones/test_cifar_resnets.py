# SPDX-License-Identifier: Apache-2.0
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
