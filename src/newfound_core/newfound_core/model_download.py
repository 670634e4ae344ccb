# SPDX-License-Identifier: Apache-2.0
"""Published models for robots with a network: `python -m newfound_core.models fetch NAME`.

Each is downloaded from its publisher, checked against its checksum, read without pickle, and
kept as safetensors in the folder of fetched models: `$NEWFOUND_MODELS`, else
`$XDG_DATA_HOME/newfound/models`, else `~/.local/share/newfound/models`. Nodes find it there by
its name. An interrupted download goes on where it stopped; a file is there whole or not at all.
"""

import argparse
import errno
import hashlib
import http.client
import os
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlparse

from safetensors.torch import save
from tqdm import tqdm

from newfound_core.backbones.contract import Tensors
from newfound_core.backbones.weights import read_weights
from newfound_core.errors import NewfoundError, StorageError, WeightsError
from newfound_core.storage import write_bytes

_TIMEOUT = 20.0  # seconds without a byte
_BLOCK = 1 << 18
_MAX_BYTES = 1 << 30  # a larger file is not one of these


@dataclass(frozen=True)
class PublishedModel:
    """A file of weights that somebody else publishes."""

    about: str
    licence: str
    url: str
    sha256: str  # or how it begins: torchvision's file names carry eight digits of it
    check: Callable[[Tensors], Tensors]  # the tensors as they are stored, or a WeightsError


def _faster_rcnn(tensors: Tensors) -> Tensors:
    # Imported here because torchvision takes seconds.
    from newfound_core.detection.region_proposer import faster_rcnn

    return dict(faster_rcnn(tensors, "the downloaded file").state_dict())


PUBLISHED = {
    "coco-regions": PublishedModel(
        "torchvision's Faster R-CNN MobileNetV3-Large 320 FPN, trained on COCO; its first stage "
        "proposes regions",
        "BSD-3-Clause (torchvision); trained on COCO images",
        "https://download.pytorch.org/models/fasterrcnn_mobilenet_v3_large_320_fpn-907ea3f9.pth",
        "907ea3f9",
        _faster_rcnn,
    )
}


def models_folder() -> Path:
    """The folder of fetched models."""
    if given := os.environ.get("NEWFOUND_MODELS"):
        return Path(given).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "newfound" / "models"


def fetched_model(name: str) -> Path | None:
    """The file of a published model; None if no such model is published.

    Raises a WeightsError that says what to do if it is published and not here yet.
    """
    if name not in PUBLISHED:
        return None
    path = models_folder() / f"{name}.safetensors"
    if not path.is_file():
        raise WeightsError(
            f"{name} is not on this machine ({path} does not exist): fetch it once with "
            f"`python -m newfound_core.models fetch {name}`"
        )
    return path


def fetch_model(name: str, url: str = "", sha256: str = "") -> Path:
    """Download, check and store a published model; at once if it is here already.

    `url` is a mirror, `sha256` the checksum that the file there must have.
    """
    if name not in PUBLISHED:
        raise WeightsError(f"no model is called {name}; there are {', '.join(PUBLISHED)}")
    model, folder = PUBLISHED[name], models_folder()
    path, part = folder / f"{name}.safetensors", folder / f".{name}.download"
    if path.is_file() and not url:
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        digest = _download(url or model.url, part, sha256.lower() or model.sha256)
        tensors = model.check(read_weights(part))
        facts = {"source": url or model.url, "sha256": digest, "licence": model.licence}
        write_bytes(path, save(tensors, facts))
        part.unlink()
    except OSError as error:
        if error.errno == errno.ENOSPC:
            part.unlink(missing_ok=True)  # a full disk helps nobody
            raise StorageError(
                f"the disk of {folder} is full ({error.strerror}): make room and try again"
            ) from error
        raise StorageError(f"{folder} cannot be written to: {error.strerror or error}") from error
    except _InterruptedError:
        raise
    except WeightsError:
        part.unlink(missing_ok=True)
        raise
    return path


class _InterruptedError(WeightsError):
    """The download can go on later."""


def _download(url: str, part: Path, sha256: str) -> str:
    """Complete a partial file and return its checksum; once from the beginning if it differs."""
    if urlparse(url).scheme not in ("http", "https"):
        raise WeightsError(f"{url} is no address that begins with https:// or http://")
    resumed = part.is_file() and part.stat().st_size > 0
    _receive(url, part)
    found = _checksum(part)
    if not found.startswith(sha256) and resumed:  # its beginning was of another file
        part.unlink()
        _receive(url, part)
        found = _checksum(part)
    if not found.startswith(sha256):
        raise WeightsError(
            f"{url} has the SHA-256 {found}, expected {sha256}{'…' * (len(sha256) < 64)}: it is "
            "not the file that was published. It was deleted; nothing was stored"
        )
    return found


def _receive(url: str, part: Path) -> None:
    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "newfound"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
            if response.status != 206:
                have = 0  # the server sends all of it
            _copy(response, part, have)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is left to send: it is complete, or too long
            return
        raise WeightsError(f"{url} answered {error.code} {error.reason}") from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as e:
        reason = getattr(e, "reason", None) or e
        raise _InterruptedError(
            f"{url} could not be downloaded: {reason}. Without a network here, fetch it on "
            "another machine and copy its folder of models; the same command goes on where this "
            "one stopped"
        ) from e


def _copy(response: http.client.HTTPResponse, part: Path, have: int) -> None:
    """Append what the server sends to the first `have` bytes."""
    left = int(response.headers.get("Content-Length") or 0)
    total = have + left
    if total > _MAX_BYTES:
        raise WeightsError(f"{response.url} is {total / 1e6:.0f} MB long: that is no such model")
    free = shutil.disk_usage(part.parent).free
    if free < total + left:  # the download, and the converted file
        raise OSError(errno.ENOSPC, f"{(total + left) / 1e6:.0f} MB are needed")
    with part.open("r+b" if have else "wb") as file, _progress(total, have) as bar:
        file.seek(have)
        file.truncate()
        received = _pump(response, file, bar)
    if left and received < left:
        raise _InterruptedError(
            f"{response.url} broke off after {(have + received) / 1e6:.1f} of "
            f"{total / 1e6:.1f} MB: the same command goes on from there"
        )


def _pump(response: http.client.HTTPResponse, file: BinaryIO, bar: "tqdm[None]") -> int:
    received = 0
    while block := response.read(_BLOCK):
        received += file.write(block)
        bar.update(len(block))
        if received > _MAX_BYTES:
            raise WeightsError(f"{response.url} does not end: that is no such model")
    return received


def _progress(total: int, have: int) -> "tqdm[None]":
    return tqdm(
        desc="download", total=total or None, initial=have, unit="B", unit_scale=True, disable=None
    )


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """`fetch NAME` or `list`; an error is one line and the exit code 1."""
    parser = argparse.ArgumentParser(
        prog="newfound_core.models", description="Fetches models that others publish."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="download a model, check it and store it")
    fetch.add_argument("name", choices=sorted(PUBLISHED))
    fetch.add_argument("--url", default="", help="a mirror of the file")
    fetch.add_argument("--sha256", default="", help="checksum that the file must have")
    commands.add_parser("list", help="the models that can be fetched, and which are here")
    chosen = parser.parse_args(arguments)
    if chosen.command == "list":
        _list()
        return 0
    try:
        path = fetch_model(chosen.name, chosen.url, chosen.sha256)
    except NewfoundError as error:
        print(f"newfound_core.models: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("newfound_core.models: interrupted; the same command goes on", file=sys.stderr)
        return 130
    print(path)
    return 0


def _list() -> None:
    for name, model in PUBLISHED.items():
        path = models_folder() / f"{name}.safetensors"
        print(f"{name}: {model.about}\n    {model.licence}\n    {model.url}")
        print(f"    {path}" if path.is_file() else "    not fetched")
