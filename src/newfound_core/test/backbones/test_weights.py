# SPDX-License-Identifier: Apache-2.0
import pickle
import socket

import pytest
import torch
from newfound_core.backbones import build_backbone
from newfound_core.backbones.weights import read_weights
from newfound_core.errors import WeightsError
from safetensors.torch import save_file


class Trap:
    """What a hostile pickle does when it is opened the careless way."""

    sprung = False

    def __reduce__(self):
        return (spring, ())


def spring():
    Trap.sprung = True


def truncated(path):
    save_file({"a": torch.zeros(100)}, path)
    path.write_bytes(path.read_bytes()[:-50])


def hostile(path):
    path.write_bytes(pickle.dumps(Trap(), protocol=2))


def whole_module(path):
    torch.save(torch.nn.Linear(2, 2), path)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("w.safetensors", truncated),
        ("w.pth", hostile),
        ("w.safetensors", hostile),
        ("w.pth", whole_module),
        ("w.pth", lambda path: path.write_bytes(b"")),
        ("w.pth", lambda path: torch.save({"epoch": 3, "model": {}}, path)),
        ("w.pth", lambda path: torch.save([torch.zeros(1)], path)),
        ("w.pth", lambda path: path.mkdir()),
        ("w.pth", lambda path: None),
    ],
)
def test_what_is_not_a_state_dict_is_refused_unopened(name, write, tmp_path):
    path = tmp_path / name
    write(path)
    with pytest.raises(WeightsError, match=name):
        read_weights(path)
    assert not Trap.sprung


def test_a_state_dict_is_read_from_either_format(tmp_path):
    tensors = {"a.weight": torch.randn(3, 2), "b": torch.arange(4)}
    save_file(tensors, tmp_path / "w.safetensors")
    torch.save(tensors, tmp_path / "w.pth")
    for name in ("w.safetensors", "w.pth"):
        read = read_weights(tmp_path / name)
        assert read.keys() == tensors.keys()
        assert all(torch.equal(read[k], tensors[k]) for k in tensors)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "timm/resnet18"])
def test_without_a_network_the_error_says_what_to_do_at_once(name, monkeypatch, tmp_path):
    def unreachable(*_args, **_kwargs):
        raise OSError("Name or service not known")

    def never(*_args, **_kwargs):
        raise AssertionError("the library was asked, and would have retried for a minute")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", never)
    monkeypatch.setattr("newfound_core.backbones.weights.getproxies", dict)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: None)
    with pytest.raises(WeightsError, match=r"no network.*Give the path of a file"):
        build_backbone(name, "imagenet")
