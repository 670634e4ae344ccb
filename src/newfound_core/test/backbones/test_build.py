# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
import torchvision
from safetensors.torch import save_file

from newfound_core.backbones import available_backbones, build_backbone
from newfound_core.errors import BackboneError, ConfigError, WeightsError

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


@torch.no_grad()
@pytest.mark.parametrize("name", ["efficientnet_lite0", "resnet18", "resnet50", "mobilenet_v2"])
def test_a_network_cut_short_gives_the_mean_of_an_earlier_map(name):
    whole = build_backbone(name).eval()
    short = build_backbone(name, stages=2).eval()
    assert build_backbone(short.name, **short.options).feature_dim == short.feature_dim
    short.load_state_dict({k: v for k, v in whole.state_dict().items() if k in short.state_dict()})
    expected = whole.stages[1](whole.stages[0](whole.stem(IMAGE))).mean((2, 3))
    torch.testing.assert_close(short(IMAGE), expected)
    assert short(IMAGE).shape == (2, short.feature_dim)


@pytest.mark.parametrize(("name", "stages"), [("resnet18", 0), ("resnet18", 5), ("alexnet", 5)])
def test_a_network_is_not_cut_where_it_cannot_be(name, stages):
    with pytest.raises(ConfigError, match=r"stages must be|cannot be cut"):
        build_backbone(name, stages=stages)


def test_a_network_cut_short_keeps_its_pretrained_weights():
    whole = build_backbone(weights="imagenet").state_dict()
    short = build_backbone(weights="imagenet", stages=4).state_dict()
    assert all(torch.equal(tensor, whole[name]) for name, tensor in short.items())
