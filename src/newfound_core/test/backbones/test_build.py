# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
import torchvision
from newfound_core.backbones import available_backbones, build_backbone
from newfound_core.errors import BackboneError, ConfigError, WeightsError
from safetensors.torch import save_file

IMAGE = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))


def same_tensors(one, other):
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def test_the_default_comes_first():
    assert available_backbones()[0] == "efficientnet_lite0"
    assert build_backbone(weights=None).name == "efficientnet_lite0"


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(BackboneError, match=r"'resnet19'.*resnet18.*timm/<name>"):
        build_backbone("resnet19")


def test_an_unknown_option_is_refused():
    with pytest.raises(ConfigError, match=r"resnet10.*width"):
        build_backbone("resnet10", width=2)


def test_name_and_options_suffice_to_build_it_again():
    first = build_backbone("cifar_resnet18", width=0.25)
    again = build_backbone(first.name, **first.options)
    shapes = [{k: v.shape for k, v in b.state_dict().items()} for b in (first, again)]
    assert shapes[0] == shapes[1]
    assert first.feature_dim == 128


@torch.no_grad()
def test_a_file_with_the_librarys_names_gives_the_librarys_features(tmp_path):
    network = torchvision.models.resnet18(num_classes=5).eval()
    torch.save(network.state_dict(), tmp_path / "w.pth")
    backbone = build_backbone("resnet18", tmp_path / "w.pth").eval()
    torch.testing.assert_close(network.fc(backbone(IMAGE)), network(IMAGE))


@torch.no_grad()
def test_a_file_without_the_classifier_is_as_good(tmp_path):
    network = torchvision.models.mobilenet_v3_small().eval()
    state = {k: v for k, v in network.state_dict().items() if not k.startswith("classifier.")}
    save_file(state, tmp_path / "w.safetensors")
    backbone = build_backbone("mobilenet_v3_small", tmp_path / "w.safetensors").eval()
    torch.testing.assert_close(network.classifier(backbone(IMAGE)), network(IMAGE))


@pytest.mark.parametrize("name", ["resnet10", "cifar_resnet20", "alexnet_bn", "timm/resnet10t"])
def test_a_file_of_the_backbones_own_tensors_is_read_back(name, tmp_path):
    first = build_backbone(name)
    save_file(first.state_dict(), tmp_path / "own.safetensors")
    assert same_tensors(first, build_backbone(name, str(tmp_path / "own.safetensors")))


def test_weights_of_another_network_name_the_tensors_that_do_not_fit(tmp_path):
    state = torchvision.models.resnet18().state_dict()
    state["layer1.0.conv3.weight"] = state.pop("layer1.0.conv1.weight")
    state["conv1.weight"] = state["conv1.weight"][:, :1].contiguous()
    save_file(state, tmp_path / "w.safetensors")
    with pytest.raises(WeightsError) as error:
        build_backbone("resnet18", tmp_path / "w.safetensors")
    assert "missing layer1.0.conv1.weight" in str(error.value)
    assert "unexpected layer1.0.conv3.weight" in str(error.value)
    assert "conv1.weight has shape [64, 1, 7, 7] instead of [64, 3, 7, 7]" in str(error.value)


def test_a_network_without_published_weights_says_so():
    with pytest.raises(WeightsError, match="no published ImageNet weights of resnet10"):
        build_backbone("resnet10", "imagenet")
