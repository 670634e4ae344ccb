# SPDX-License-Identifier: Apache-2.0
import torch
import torchvision
from newfound_core.backbones import build_backbone
from safetensors.torch import save_file
from torch import nn

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
