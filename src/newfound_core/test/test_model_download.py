# SPDX-License-Identifier: Apache-2.0
"""Against a real HTTP server that serves real weights, or misbehaves."""

import hashlib
import io
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from safetensors import safe_open
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

from newfound_core import model_download
from newfound_core.detection.region_proposer import load_region_proposer
from newfound_core.errors import StorageError, WeightsError
from newfound_core.model_download import fetch_model, fetched_model, main, models_folder

NAME = "coco-regions"


@pytest.fixture(scope="session")
def published():
    """What torchvision publishes: a state_dict of frozen batch norms, with random weights."""
    torch.manual_seed(0)
    network = fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None)
    tensors = {k: v for k, v in network.state_dict().items() if "num_batches" not in k}
    file = io.BytesIO()
    torch.save(tensors, file)
    return file.getvalue()


class Server(ThreadingHTTPServer):
    """Serves one file; `answer` may do otherwise."""

    content = b""
    ranges = True
    breaks_after: int | None = None
    status = 200

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/weights.pth"

    def handle_error(self, request, client_address):
        """A client that hangs up early is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.requests.append(wanted)
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        start = 0
        if wanted and self.server.ranges:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            if start >= len(self.server.content):
                self.send_error(416)
                return
        body = self.server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.breaks_after])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(published, monkeypatch, tmp_path):
    monkeypatch.setenv("NEWFOUND_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as serving:
        serving.content = published
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def digest(content):
    return hashlib.sha256(content).hexdigest()


def left_behind():
    return sorted(path.name for path in models_folder().iterdir())


def test_a_published_model_is_fetched_checked_and_found_by_its_name(server):
    with pytest.raises(WeightsError, match=r"newfound_core\.models fetch coco-regions"):
        fetched_model(NAME)
    path = fetch_model(NAME, server.url, digest(server.content))
    assert path == fetched_model(NAME) == models_folder() / "coco-regions.safetensors"
    with safe_open(path, "pt") as file:
        assert file.metadata()["sha256"] == digest(server.content)
        assert file.metadata()["source"] == server.url
    assert left_behind() == [path.name]
    rgb = (torch.rand(60, 96, 3) * 255).byte().numpy()
    assert len(load_region_proposer(str(path)).propose(rgb, None)) > 0
    assert fetched_model("regions") is None
    assert fetch_model(NAME) == path  # it is here: nothing is asked of the network


def test_a_file_with_another_checksum_is_refused_and_deleted(server):
    with pytest.raises(WeightsError, match=f"{digest(server.content)}, expected 907ea3f9…"):
        fetch_model(NAME, server.url)
    assert left_behind() == []


def test_an_interrupted_download_goes_on_where_it_stopped(server):
    server.breaks_after = 1_000_000
    for _ in range(2):
        with pytest.raises(WeightsError, match="broke off after"):
            fetch_model(NAME, server.url, digest(server.content))
    server.breaks_after = None
    fetch_model(NAME, server.url, digest(server.content))
    assert server.requests == [None, "bytes=1000000-", "bytes=2000000-"]
    assert left_behind() == ["coco-regions.safetensors"]


@pytest.mark.parametrize("ranges", [True, False])
def test_the_beginning_of_another_file_is_thrown_away(server, ranges):
    server.ranges = ranges
    models_folder().mkdir(parents=True)
    (models_folder() / f".{NAME}.download").write_bytes(b"of yesterday")
    fetch_model(NAME, server.url, digest(server.content))
    assert server.requests == (["bytes=12-", None] if ranges else ["bytes=12-"])


def test_a_complete_partial_file_is_used_as_it_is(server):
    models_folder().mkdir(parents=True)
    (models_folder() / f".{NAME}.download").write_bytes(server.content)
    fetch_model(NAME, server.url, digest(server.content))
    assert len(server.requests) == 1


def test_what_is_no_such_network_is_not_stored(server):
    for content in (b"<html>sign in</html>", _saved({"x": torch.zeros(1)})):
        server.content = content
        with pytest.raises(WeightsError):
            fetch_model(NAME, server.url, digest(content))
        assert left_behind() == []


def _saved(tensors):
    file = io.BytesIO()
    torch.save(tensors, file)
    return file.getvalue()


def test_a_pickle_is_not_executed(server, tmp_path):
    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "evil"),))

    server.content = _saved({"x": Evil()})
    with pytest.raises(WeightsError, match="read safely"):
        fetch_model(NAME, server.url, digest(server.content))
    assert not (tmp_path / "evil").exists()


def test_errors_say_what_to_do(server, monkeypatch, capsys):
    server.status = 404
    assert main(["fetch", NAME, "--url", server.url]) == 1
    assert "answered 404" in capsys.readouterr().err
    assert main(["fetch", NAME, "--url", "http://127.0.0.1:1/x"]) == 1
    assert "Without a network here, fetch it on another machine" in capsys.readouterr().err
    assert main(["fetch", NAME, "--url", "file:///etc/passwd"]) == 1
    assert "no address" in capsys.readouterr().err
    with pytest.raises(WeightsError, match="no model is called"):
        fetch_model("other")
    server.status = 200
    monkeypatch.setattr(model_download, "_MAX_BYTES", 1000)
    assert main(["fetch", NAME, "--url", server.url]) == 1
    assert "no such model" in capsys.readouterr().err


def test_a_full_or_read_only_disk_is_named(server, monkeypatch, tmp_path):
    usage = model_download.shutil.disk_usage(tmp_path)._replace(free=10_000_000)
    with monkeypatch.context() as patch:
        patch.setattr(model_download.shutil, "disk_usage", lambda path: usage)
        with pytest.raises(StorageError, match="is full"):
            fetch_model(NAME, server.url, digest(server.content))
    assert left_behind() == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NEWFOUND_MODELS", str(tmp_path / "file" / "models"))
    with pytest.raises(StorageError, match="cannot be written"):
        fetch_model(NAME, server.url, digest(server.content))


def test_the_folder_follows_the_environment(monkeypatch):
    monkeypatch.delenv("NEWFOUND_MODELS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert str(models_folder()) == "/data/newfound/models"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert str(models_folder()).endswith("/.local/share/newfound/models")


def test_the_command_fetches_and_lists(server, capsys):
    fetch = ["fetch", NAME, "--url", server.url, "--sha256", digest(server.content)]
    command = [sys.executable, "-m", "newfound_core.models", *fetch]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("coco-regions.safetensors")
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    assert "download.pytorch.org" in listed
    assert done.stdout.strip() in listed
