# SPDX-License-Identifier: Apache-2.0
"""Every network keeps the one contract."""

import copy

import pytest
import torch
from newfound_core.backbones import available_backbones, build_backbone
from torch import nn

# One of each timm family, and two that cannot be cut.
TIMM = (
    "timm/resnet10t",
    "timm/mobilenetv3_small_050",
    "timm/efficientnet_b0",
    "timm/regnetx_002",
    "timm/convnext_atto",
    "timm/ghostnet_100",
    "timm/test_vit",
)


def image_for(name):
    size = {"timm/test_vit": 160}.get(name, 32 if name.startswith("cifar") else 96)
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module", params=available_backbones() + TIMM)
def backbone(request):
    torch.manual_seed(0)
    return build_backbone(request.param).eval()


@torch.no_grad()
def test_every_backbone_keeps_the_contract(backbone):
    image = image_for(backbone.name)
    features = backbone(image)
    early = backbone.early_features(image)

    assert features.shape == (2, backbone.feature_dim)
    assert backbone.stem(image).shape[1] == backbone.stem_channels
    assert early.shape[1] == backbone.early_channels
    torch.testing.assert_close(backbone.from_early(early), features)
    torch.testing.assert_close(backbone.head(backbone.feature_map(image)), features)
    torch.testing.assert_close(backbone.features(image), features)


def test_every_batch_norm_is_a_plain_layer(backbone):
    kinds = {type(m) for m in backbone.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)}
    assert kinds <= {nn.BatchNorm1d, nn.BatchNorm2d}


def test_no_tensor_is_held_under_two_names(backbone):
    places = [t.data_ptr() for t in backbone.state_dict().values() if t.numel()]
    assert len(places) == len(set(places))


@torch.no_grad()
def test_a_copy_is_independent_of_its_original(backbone):
    image = image_for(backbone.name)
    before = backbone(image)
    twin = copy.deepcopy(backbone)
    for parameter in twin.parameters():
        parameter.zero_()
    torch.testing.assert_close(backbone(image), before, rtol=0, atol=0)


def test_the_domain_branch_of_alexnet_leaves_from_pool5():
    backbone = build_backbone("alexnet_bn").eval()
    assert backbone.early_features(torch.zeros(1, 3, 227, 227)).shape == (1, 256, 6, 6)
    assert isinstance(backbone.stages[-1][-1], nn.MaxPool2d)


def test_the_domain_branch_of_a_resnet_leaves_after_the_first_pooling():
    early = build_backbone("resnet10").early_features(torch.zeros(1, 3, 224, 224))
    assert early.shape == (1, 64, 56, 56)
