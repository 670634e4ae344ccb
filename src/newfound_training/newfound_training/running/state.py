# SPDX-License-Identifier: Apache-2.0
"""The state of an unfinished training in one file: weights, optimiser, step. No pickle.

Random numbers and the position in the data are functions of seed and step, so they need no
place here.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim import Optimizer

from newfound_core.errors import CheckpointError
from newfound_core.storage import write_bytes
from newfound_core.tensors import load_into

STATE_NAME = "state.safetensors"
_MODEL, _OPTIMIZER = "model.", "optimizer."


def save_state(path: Path, step: int, model: nn.Module, optimizer: Optimizer) -> None:
    """Replaces the file in one step; `step` is the number of steps done."""
    tensors = {_MODEL + name: tensor for name, tensor in model.state_dict().items()}
    scalars: dict[str, Any] = {}
    for index, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            key = f"{_OPTIMIZER}{index}.{name}"
            if isinstance(value, Tensor):
                tensors[key] = value
            else:
                scalars[key] = value
    plain = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    header = {"step": str(step), "scalars": json.dumps(scalars)}
    write_bytes(path, save(plain, metadata=header))


def load_state(path: Path, model: nn.Module, optimizer: Optimizer) -> int:
    """Takes over a saved state; the number of steps done."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        step, scalars = int(header["step"]), json.loads(header["scalars"])
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{path} cannot be resumed from: {error}. Delete it to start anew"
        ) from error
    weights = {k.removeprefix(_MODEL): v for k, v in tensors.items() if k.startswith(_MODEL)}
    load_into(model, weights, str(path))
    state = {k: v for k, v in (tensors | scalars).items() if k.startswith(_OPTIMIZER)}
    _load_optimizer(optimizer, state)
    return step


def _load_optimizer(optimizer: Optimizer, entries: dict[str, Any]) -> None:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    optimizer.state.clear()
    for key, value in entries.items():
        index, name = key.removeprefix(_OPTIMIZER).split(".", 1)
        parameter = parameters[int(index)]
        optimizer.state[parameter][name] = _laid_out_like(parameter, value)


def _laid_out_like(parameter: Tensor, value: Any) -> Any:
    """A value in the memory layout that it would have without the interruption.

    Other layouts take other code paths, which round differently.
    """
    if isinstance(value, Tensor) and value.shape == parameter.shape:
        return torch.empty_like(parameter).copy_(value)
    return value
