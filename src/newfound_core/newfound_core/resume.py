# SPDX-License-Identifier: Apache-2.0
"""Resumable training state: safetensors with a JSON header, replaced atomically. No pickle.

Random numbers and the position in the data are functions of seed and step, so a state is the
model, the optimiser and a number. An open-world run keeps two files, the last finished step and
the last epoch after it; its memory is kept as names of images.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim import Optimizer

from newfound_core.errors import CheckpointError
from newfound_core.open_world.memory import Memory
from newfound_core.open_world.step_config import EpochState
from newfound_core.storage import write_bytes
from newfound_core.tensors import load_into

FORMAT = "newfound resume 1"
STATE_NAME = "state.safetensors"
_MODEL, _OPTIMIZER = "model.", "optimizer."
Names = dict[str, list[tuple[str, bool]]]  # by class: image and whether it is held out


def write_state(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Replace a state file in one step; `header` is whatever JSON can hold."""
    plain = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    write_bytes(path, save(plain, metadata={"format": FORMAT, "header": json.dumps(header)}))


def read_state(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read header and tensors of a state file; anything else is a CheckpointError."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            if metadata["format"] != FORMAT:
                raise ValueError(f"its format is {metadata['format']!r}, not {FORMAT!r}")
            header = json.loads(metadata["header"])
            return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{path} cannot be resumed from: {error}. Delete it to start anew"
        ) from error


def training_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Return copies of a model's tensors and of its optimiser's buffers, by name."""
    tensors = {_MODEL + name: tensor.clone() for name, tensor in model.state_dict().items()}
    for index, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"{_OPTIMIZER}{index}.{name}"] = value.clone()
            elif value is not None:
                raise TypeError(f"{type(optimizer).__name__} keeps {name} outside of tensors")
    return tensors


def model_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return those of `training_tensors` that are the model's, under their own names."""
    return {k.removeprefix(_MODEL): v for k, v in tensors.items() if k.startswith(_MODEL)}


def restore_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Give an optimiser the buffers of `training_tensors`."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    optimizer.state.clear()
    for key, value in tensors.items():
        if key.startswith(_OPTIMIZER):
            index, name = key.removeprefix(_OPTIMIZER).split(".", 1)
            parameter = parameters[int(index)]
            optimizer.state[parameter][name] = _laid_out_like(parameter, value)


def _laid_out_like(parameter: Tensor, value: Tensor) -> Tensor:
    """Return a value in the memory layout that it would have without the interruption.

    Other layouts take other code paths, which round differently.
    """
    if value.shape == parameter.shape:
        return torch.empty_like(parameter).copy_(value)
    return value


def save_training(path: Path, step: int, model: nn.Module, optimizer: Optimizer) -> None:
    """Replace the state of a training loop; `step` is the number of steps done."""
    write_state(path, training_tensors(model, optimizer), {"step": step})


def load_training(path: Path, model: nn.Module, optimizer: Optimizer) -> int:
    """Restore model and optimiser of a training loop; return the number of steps done."""
    header, tensors = read_state(path)
    load_into(model, model_tensors(tensors), str(path))
    restore_optimizer(optimizer, tensors)
    return header["step"]


@dataclass(frozen=True)
class FinishedSteps:
    """An open-world run after so many steps."""

    steps: int
    options: dict[str, Any]  # of the model
    tensors: dict[str, Tensor]
    memory: Names
    records: list[dict[str, Any]]  # what was measured after each step


class StateFolder:
    """The two state files of one open-world run."""

    def __init__(self, folder: Path) -> None:
        self._finished = folder / "steps.safetensors"
        self._epoch = folder / "epoch.safetensors"

    def save_finished(self, state: FinishedSteps) -> None:
        """Replace the state after a step."""
        header = {
            "steps": state.steps,
            "options": state.options,
            "memory": state.memory,
            "records": state.records,
        }
        write_state(self._finished, state.tensors, header)

    def finished(self) -> FinishedSteps | None:
        """Return the state after the last finished step, if there is one."""
        if not self._finished.exists():
            return None
        header, tensors = read_state(self._finished)
        memory = {k: [(n, h) for n, h in v] for k, v in header.pop("memory").items()}
        return FinishedSteps(tensors=tensors, memory=memory, **header)

    def save_epoch(self, step: int, state: EpochState) -> None:
        """Replace the state within a step, counted from 0."""
        header = {"step": step, "epochs_done": state.epochs_done, "losses": state.losses}
        write_state(self._epoch, state.tensors, header)

    def epoch(self, step: int) -> EpochState | None:
        """Return the last epoch of a step, if one was finished."""
        if not self._epoch.exists():
            return None
        header, tensors = read_state(self._epoch)
        if header["step"] != step:
            return None
        return EpochState(header["epochs_done"], tensors, header["losses"])


def names_of(memory: Memory) -> Names:
    """Return the memory as names of images."""
    return {
        label: [(s.source, s.held_out) for s in memory.samples(label)] for label in memory.labels
    }
