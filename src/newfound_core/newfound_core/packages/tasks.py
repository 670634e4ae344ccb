# SPDX-License-Identifier: Apache-2.0
"""A task as a package: a delta, for robots that have the network it belongs to.

Nothing is learned when it is imported: what is read is applied to the base once, to see that it
can be, and put below the task root, where `~/load_task` finds it.
"""

import json
import time
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from newfound_core.checkpoint import JSON_NAME, TENSORS_NAME, Checkpoint, load_checkpoint
from newfound_core.errors import CheckpointError, StorageError
from newfound_core.knowledge.labels import label_problem
from newfound_core.models import model_of
from newfound_core.packages.archive import Package, PackageError
from newfound_core.storage import atomic_directory, read_json
from newfound_core.task_delta.checkpoint import METHOD, is_task_name, resolve

_MOST_LABELS = 10_000


def export_task(folder: Path, robot: str = "") -> Package:
    """The delta in a folder below a task root, under the folder's name."""
    try:
        load_checkpoint(folder, METHOD)  # whole, and what it says
    except CheckpointError as error:
        raise PackageError(f"no task can be made of it: {error}") from error
    name = folder.resolve().name
    if not is_task_name(name):
        raise PackageError(f"{name[:80]!r} cannot be the name of a task")
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    details = {"checkpoint": read_json(folder / JSON_NAME)}
    files = {TENSORS_NAME: (folder / TENSORS_NAME).read_bytes()}
    return Package("task_delta", name, details, files, {"made": made, "robot": robot})


def import_task(
    root: Path, package: Package, base: str | PathLike[str], *, replace: bool = False
) -> Path:
    """Put a packaged task below a task root, if it is one of this base; its folder."""
    if package.kind != "task_delta":
        raise PackageError(f"it holds a {package.kind}, no task")
    if not is_task_name(package.name):
        raise PackageError(f"{package.name[:80]!r} cannot be the name of a task")
    values = package.details.get("checkpoint")
    if set(package.details) != {"checkpoint"} or not isinstance(values, dict):
        raise PackageError("it does not describe a checkpoint")
    _check_labels(values.get("labels"))
    if set(package.files) != {TENSORS_NAME}:
        raise PackageError(f"a task has the file {TENSORS_NAME} and no other")
    folder = root / package.name
    try:
        root.mkdir(parents=True, exist_ok=True)
        with atomic_directory(folder, replace=replace) as aside:
            (aside / TENSORS_NAME).write_bytes(package.files[TENSORS_NAME])
            (aside / JSON_NAME).write_text(json.dumps(values), encoding="utf-8")
            try:
                _try_out(resolve(load_checkpoint(aside, METHOD), base))
            except CheckpointError as error:
                raise PackageError(str(error).replace(str(aside), package.name)) from error
    except FileExistsError as error:
        raise PackageError(
            f"a task {package.name!r} is in {root} already: --replace exchanges it"
        ) from error
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error}") from error
    return folder


def _check_labels(labels: Any) -> None:
    """They are published as they are, and compared with each other."""
    if not isinstance(labels, list) or len(labels) > _MOST_LABELS:
        raise PackageError(f"it lists no labels, or more than {_MOST_LABELS}")
    for label in labels:
        problem = label_problem(label) if isinstance(label, str) else "a label is no text"
        if problem:
            raise PackageError(problem)


def _try_out(checkpoint: Checkpoint) -> None:
    """A CheckpointError if no model can be made of it, or its answer to an image is no number."""
    model, size = model_of(checkpoint), checkpoint.metadata.preprocessing.size
    with torch.no_grad():
        answer = model(torch.zeros(1, 3, size, size))
    if not answer.isfinite().all():
        raise CheckpointError("its network answers with NaN or infinity")
