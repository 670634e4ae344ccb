# SPDX-License-Identifier: Apache-2.0
import copy

import pytest
import timm
import torch
from newfound_core.backbones import build_backbone
from newfound_core.backbones.timm_networks import assemble_timm, split_fused_norms
from newfound_core.errors import BackboneError, ConfigError
from timm.layers import BatchNormAct2d
from torch import nn

IMAGE = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(1))


def with_lively_norms(network):
    """Random BN parameters and statistics, so that each layer matters to the output."""
    generator = torch.Generator().manual_seed(2)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight.data, module.running_var):
                tensor.uniform_(0.5, 1.5, generator=generator)
            for tensor in (module.bias.data, module.running_mean):
                tensor.normal_(std=0.2, generator=generator)
    return network


def test_timms_fused_norm_is_a_batch_norm_that_also_activates():
    # The relation the converters rely on: replacing one by isinstance would lose its activation.
    fused = BatchNormAct2d(1).eval()
    assert isinstance(fused, nn.BatchNorm2d)
    assert fused(-torch.ones(1, 1, 1, 1)).item() == 0


@torch.no_grad()
@pytest.mark.parametrize("name", ["efficientnet_lite0", "mobilenetv3_small_050", "resnet10t"])
def test_splitting_norms_and_cutting_leaves_the_output_unchanged(name):
    network = with_lively_norms(timm.create_model(name, num_classes=0)).eval()
    backbone = assemble_timm(copy.deepcopy(network)).eval()
    torch.testing.assert_close(backbone(IMAGE), network(IMAGE))
    assert network(IMAGE).std() > 1e-4


def test_splitting_keeps_training_mode_and_gradients():
    network = with_lively_norms(timm.create_model("efficientnet_lite0", num_classes=0)).train()
    twin = copy.deepcopy(network)
    split_fused_norms(twin)
    for one in (network, twin):
        one(IMAGE).sum().backward()
    for here, there in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(here.grad, there.grad)
    for here, there in zip(network.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(here, there)


def test_building_does_not_touch_the_random_state():
    torch.manual_seed(5)
    timm.create_model("resnet10t", num_classes=0)
    expected = torch.get_rng_state()
    torch.manual_seed(5)
    build_backbone("timm/resnet10t")
    assert torch.equal(torch.get_rng_state(), expected)


def test_a_network_that_cannot_be_cut_starts_its_domain_branch_from_the_image():
    backbone = build_backbone("timm/ghostnet_100")
    assert backbone.early_channels == 3
    assert torch.equal(backbone.early_features(IMAGE), IMAGE)


def test_an_unknown_timm_name_offers_similar_ones():
    with pytest.raises(BackboneError, match=r"no network 'resnet_18'.*resnet"):
        build_backbone("timm/resnet_18")


def test_an_option_timm_does_not_know_is_refused():
    with pytest.raises(BackboneError, match="no_such_option"):
        build_backbone("timm/resnet10t", no_such_option=1)


@pytest.mark.parametrize("option", ["checkpoint_path", "pretrained_cfg", "pretrained"])
def test_an_option_that_would_open_something_is_refused(option, tmp_path):
    with pytest.raises(ConfigError, match=option):
        build_backbone("timm/resnet10t", **{option: str(tmp_path / "evil.pth")})
