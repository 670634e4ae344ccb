# SPDX-License-Identifier: Apache-2.0
"""Pretrained weights: from a file, or from the library's own site where there is a network."""

import pickle
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlparse
from urllib.request import getproxies

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from newfound_core.backbones.contract import Tensors
from newfound_core.errors import WeightsError
from newfound_core.tensors import mismatches

T = TypeVar("T")

CONNECT_SECONDS = 5.0
ADVICE = (
    "Give the path of a file instead (.safetensors, or a .pth with a state_dict), "
    "or weights=None to start from random values."
)

_UNREADABLE = (
    OSError,
    SafetensorError,
    pickle.UnpicklingError,
    RuntimeError,
    EOFError,
    ValueError,
    LookupError,  # this and the rest: torch's restricted reader on a file of anything else
    AttributeError,
    TypeError,
)


def read_weights(path: Path) -> Tensors:
    """The named tensors of a .safetensors file, or of a .pth state_dict; nothing is unpickled.

    A .pth is read by torch's restricted reader, which knows tensors and plain containers only.
    """
    try:
        if not path.is_file():
            raise WeightsError(f"{path} is not a file. {ADVICE}")
        if path.suffix == ".safetensors":
            return load_file(path)
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        raise WeightsError(
            f"{path} holds no weights that can be read safely: {_first_line(error)}. "
            "Expected a .safetensors file or a plain state_dict saved with torch.save."
        ) from error
    plain = isinstance(tensors, dict) and all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor)
        for name, tensor in tensors.items()
    )
    if not plain:
        raise WeightsError(
            f"{path} does not hold a state_dict (names to tensors). If it is a training "
            "checkpoint, save its 'state_dict' or 'model' entry alone."
        )
    return dict(tensors)


def load_strictly(module: nn.Module, tensors: Tensors, origin: str) -> None:
    """Load every tensor, or raise a WeightsError that names those that do not fit.

    Half-precision files are published too, so the type may differ.
    """
    problems = mismatches(module.state_dict(), tensors, dtypes=False)
    if problems:
        raise WeightsError(
            f"the weights of {origin} belong to another network: {'; '.join(problems)}. "
            "Build the network they were made for, with the same options."
        )
    module.load_state_dict(tensors)


def torchvision_weights(name: str) -> Callable[[], Tensors]:
    """Loader of torchvision's first ImageNet weights of a network."""

    def download() -> Tensors:
        from torchvision.models import get_model_weights

        weights = get_model_weights(name)["IMAGENET1K_V1"]
        cached = Path(torch.hub.get_dir()) / "checkpoints" / Path(urlparse(weights.url).path).name
        what = f"ImageNet weights of {name}"
        if not cached.exists():
            require_network(weights.url, what)
        options = {"progress": False, "check_hash": True, "weights_only": True}
        return dict(fetched(what, lambda: weights.get_state_dict(**options)))

    return download


def fetched(what: str, fetch: Callable[[], T]) -> T:
    """Fetch through a library, whose errors are of many kinds and mean the same here."""
    try:
        return fetch()
    except Exception as error:
        raise WeightsError(
            f"the {what} could not be fetched: {_first_line(error)}. {ADVICE}"
        ) from error


def require_network(url: str, what: str) -> None:
    """Raise within seconds if a site cannot be reached, where libraries retry for minutes."""
    host = urlparse(url).hostname or url
    if getproxies():
        return  # the proxy reaches what this machine cannot; the library knows how to ask it
    try:
        socket.create_connection((host, 443), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise WeightsError(
            f"no network to fetch the {what} from {host} ({error}). {ADVICE}"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
