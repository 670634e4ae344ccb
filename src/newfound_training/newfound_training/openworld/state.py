# SPDX-License-Identifier: Apache-2.0
"""What an interrupted run goes on from: the last finished step, and the last epoch after it.

Two safetensors files, each replaced in one step. The memory is kept as names of images.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from newfound_core.errors import CheckpointError
from newfound_core.open_world.memory import Memory
from newfound_core.open_world.step_config import EpochState
from newfound_core.storage import write_bytes

Names = dict[str, list[tuple[str, bool]]]  # by class: image and whether it is held out


@dataclass(frozen=True)
class FinishedSteps:
    """Everything after so many steps."""

    steps: int
    options: dict[str, Any]  # of the model
    tensors: dict[str, Tensor]
    memory: Names
    records: list[dict[str, Any]]  # what was measured after each step


class StateFolder:
    """The two files of one run."""

    def __init__(self, folder: Path) -> None:
        self._finished = folder / "steps.safetensors"
        self._epoch = folder / "epoch.safetensors"

    def save_finished(self, state: FinishedSteps) -> None:
        """Replaces the state after a step."""
        header = {
            "steps": state.steps,
            "options": state.options,
            "memory": state.memory,
            "records": state.records,
        }
        _write(self._finished, state.tensors, header)

    def finished(self) -> FinishedSteps | None:
        """The state after the last finished step, if there is one."""
        if not self._finished.exists():
            return None
        header, tensors = _read(self._finished)
        memory = {k: [(n, h) for n, h in v] for k, v in header.pop("memory").items()}
        return FinishedSteps(tensors=tensors, memory=memory, **header)

    def save_epoch(self, step: int, state: EpochState) -> None:
        """Replaces the state within a step, counted from 0."""
        header = {"step": step, "epochs_done": state.epochs_done, "losses": state.losses}
        _write(self._epoch, state.tensors, header)

    def epoch(self, step: int) -> EpochState | None:
        """The last epoch of a step, if one was finished."""
        if not self._epoch.exists():
            return None
        header, tensors = _read(self._epoch)
        if header["step"] != step:
            return None
        return EpochState(header["epochs_done"], tensors, header["losses"])


def names_of(memory: Memory) -> Names:
    """The memory as names of images."""
    return {
        label: [(s.source, s.held_out) for s in memory.samples(label)] for label in memory.labels
    }


def _write(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    plain = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    write_bytes(path, save(plain, metadata={"state": json.dumps(header)}))


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads(file.metadata()["state"])
            return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{path} cannot be resumed from: {error}. Delete its folder to start anew"
        ) from error
