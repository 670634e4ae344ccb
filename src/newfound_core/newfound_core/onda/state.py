# SPDX-License-Identifier: Apache-2.0
"""Adapted statistics on disk: one safetensors file that fits one network only."""

import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from newfound_core.errors import CheckpointError
from newfound_core.onda.config import OndaConfig
from newfound_core.onda.layers import Statistics
from newfound_core.storage import write_bytes

FORMAT = "newfound onda state 1"


def write_state(
    path: Path, online: Statistics, counters: dict[str, int], fingerprint: str, config: OndaConfig
) -> None:
    """Write the file in one step: a crash leaves the old one or the new one, never half."""
    tensors = {"mean": online.mean.cpu(), "variance": online.variance.cpu()}
    metadata = {
        "format": FORMAT,
        "network": fingerprint,
        "counters": json.dumps(counters),
        "config": json.dumps(asdict(config)),  # for the reader; statistics fit any options
    }
    write_bytes(path, save(tensors, metadata))


def read_state(path: Path, rows: int, fingerprint: str) -> tuple[Statistics, dict[str, int]]:
    """The statistics and counters of a file, or a `CheckpointError` that says what is wrong."""
    tensors, metadata = _open(path)
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {metadata.get('format')!r}, expected {FORMAT!r}: it was not "
            "saved by Onda.save, or by another version of newfound"
        )
    if metadata.get("network") != fingerprint:
        raise CheckpointError(
            f"{path} belongs to another network (its fingerprint differs): adapted statistics "
            "fit only the parameters and source statistics they were made with. Delete the file "
            "to start from the source, or load the checkpoint it was saved with"
        )
    mean, variance = tensors.get("mean"), tensors.get("variance")
    if set(tensors) != {"mean", "variance"} or mean is None or variance is None:
        raise CheckpointError(f"{path} holds {sorted(tensors)}, expected mean and variance")
    good = mean.shape == variance.shape == (rows,) and _valid(mean, variance)
    if not good:
        raise CheckpointError(
            f"{path} is damaged: expected {rows} finite means and variances that are not "
            f"negative, found shapes {list(mean.shape)} and {list(variance.shape)}"
        )
    return Statistics(mean, variance), _counters(path, metadata)


def _open(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read as adapted statistics: {error}") from error


def _valid(mean: Tensor, variance: Tensor) -> bool:
    finite = torch.isfinite(mean).all() and torch.isfinite(variance).all()
    return bool(finite and (variance >= 0).all())


def _counters(path: Path, metadata: dict[str, str]) -> dict[str, int]:
    try:
        counters = json.loads(metadata["counters"])
        return {str(name): int(value) for name, value in counters.items()}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} has damaged counters in its metadata") from error
