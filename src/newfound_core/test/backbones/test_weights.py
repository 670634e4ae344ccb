# SPDX-License-Identifier: Apache-2.0
import pickle
import socket
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import torch
from safetensors.torch import save_file

from newfound_core.backbones import build_backbone
from newfound_core.backbones.weights import read_weights
from newfound_core.errors import WeightsError


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
        ("w.pth", lambda path: path.write_text("root:x:0:0\n" * 30)),
        ("w.pth", lambda path: path.write_text("hello\n")),
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


@pytest.fixture
def strict_proxy(monkeypatch):
    """The only way out is a proxy that forbids everything."""

    class Forbidding(BaseHTTPRequestHandler):
        def do_CONNECT(self):
            self.send_error(403)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Forbidding)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setattr(urllib.request, "_opener", None)  # it would remember other proxies
    yield
    server.shutdown()
    server.server_close()


def test_a_proxy_that_forbids_the_site_is_named_with_the_way_out(
    strict_proxy, monkeypatch, tmp_path
):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(WeightsError, match=r"could not be fetched.*403.*Give the path of a file"):
        build_backbone("resnet18", "imagenet")


@pytest.mark.parametrize(
    ("name", "loader"),
    [
        ("resnet18", "torchvision.models._api.load_state_dict_from_url"),
        ("timm/resnet18", "huggingface_hub.hf_hub_download"),
    ],
)
def test_a_file_that_arrives_damaged_is_told_with_the_way_out(name, loader, monkeypatch, tmp_path):
    def damaged(*_args, **_kwargs):
        raise RuntimeError('invalid hash value (expected "f37072fd", got "00000000")')

    monkeypatch.setattr(loader, damaged)
    monkeypatch.setattr("newfound_core.backbones.weights.getproxies", lambda: {"https": "there"})
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: None)
    with pytest.raises(WeightsError, match=r"could not be fetched: invalid hash value"):
        build_backbone(name, "imagenet")
