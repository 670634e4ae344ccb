# SPDX-License-Identifier: Apache-2.0
"""A checkpoint on disk: `checkpoint.json`, `model.safetensors`, and for the open world `memory/`.

Writing is crash-safe: the directory appears complete or not at all. Reading is strict: whatever
is missing, damaged, from another version or does not fit is a CheckpointError that says so.
No pickle is ever opened.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from newfound_core.errors import CheckpointError, DataError
from newfound_core.metadata import METHODS, Metadata
from newfound_core.storage import atomic_directory, read_json
from newfound_core.tensors import check_finite

JSON_NAME = "checkpoint.json"
TENSORS_NAME = "model.safetensors"
MEMORY_NAME = "memory"
_DIGEST = "tensors_sha256"


@dataclass(frozen=True)
class Checkpoint:
    """Contents of a checkpoint's directory."""

    metadata: Metadata
    tensors: dict[str, Tensor]
    directory: Path
    digest: str  # SHA-256 of the tensors' file: what other files that belong to it are keyed by

    @property
    def memory_directory(self) -> Path | None:
        """The folder with the samples kept from earlier steps, if there is one."""
        return self.directory / MEMORY_NAME if self.metadata.memory else None


def save_checkpoint(
    directory: str | PathLike[str],
    metadata: Metadata,
    tensors: Mapping[str, Tensor],
    *,
    write_memory: Callable[[Path], None] | None = None,
    replace: bool = False,
) -> Path:
    """Write a checkpoint in one step; a reader sees the whole of it or nothing.

    `write_memory` is given the folder `memory` to fill. An existing directory is refused, or
    with `replace` exchanged atomically.
    """
    directory = Path(directory)
    where = f"the checkpoint for {directory}"
    _check_tensors(metadata.method, metadata.labels, tensors, where)
    # Cloned, because safetensors refuses tensors that share memory.
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    content = save(plain)
    metadata = metadata.with_memory(write_memory is not None)
    text = metadata.to_json(**{_DIGEST: hashlib.sha256(content).hexdigest()})
    Metadata.from_values(_without_digest(json.loads(text)))  # what cannot be read is not written
    try:
        with atomic_directory(directory, replace=replace) as aside:
            (aside / TENSORS_NAME).write_bytes(content)
            if write_memory is not None:
                (aside / MEMORY_NAME).mkdir()
                write_memory(aside / MEMORY_NAME)
            (aside / JSON_NAME).write_text(text, encoding="utf-8")
    except FileExistsError as error:
        raise CheckpointError(
            f"{directory} exists already: choose another name, or ask for it to be replaced"
        ) from error
    except OSError as error:
        raise CheckpointError(f"{directory} could not be written: {error}") from error
    return directory


def load_checkpoint(
    directory: str | PathLike[str], method: str | Collection[str] | None = None
) -> Checkpoint:
    """Read a checkpoint and check all of it; `method` names what the caller can use."""
    directory = Path(directory)
    try:
        values = read_json(_required(directory, JSON_NAME))
    except DataError as error:
        raise CheckpointError(f"{error}. Copy the checkpoint again.") from error
    digest = values.get(_DIGEST)
    try:
        metadata = Metadata.from_values(_without_digest(values))
    except CheckpointError as error:
        raise CheckpointError(f"{directory / JSON_NAME}: {error}") from error
    _check_method(directory, metadata.method, method)
    tensors = _read_tensors(_required(directory, TENSORS_NAME), digest)
    _check_tensors(metadata.method, metadata.labels, tensors, str(directory))
    if metadata.memory != (directory / MEMORY_NAME).is_dir():
        said, found = ("declares", "no") if metadata.memory else ("declares no", "a")
        raise CheckpointError(
            f"{directory / JSON_NAME} {said} memory, but there is {found} folder {MEMORY_NAME}: "
            "the checkpoint was copied in part or put together by hand"
        )
    return Checkpoint(metadata, tensors, directory, str(digest))


def _required(directory: Path, name: str) -> Path:
    """The path of a file of the checkpoint, which must be there."""
    try:
        return _find(directory, name)
    except OSError as error:  # a folder that this user may not look into
        raise CheckpointError(f"{directory} cannot be read: {error.strerror or error}") from error


def _find(directory: Path, name: str) -> Path:
    if not directory.is_dir():
        found = "is a file" if directory.is_file() else "does not exist"
        raise CheckpointError(
            f"{directory} {found}: a checkpoint is a directory with {JSON_NAME} and "
            f"{TENSORS_NAME}. A .pth or other pickle is never opened."
        )
    path = directory / name
    if not path.is_file():
        others = ", ".join(sorted(entry.name for entry in directory.iterdir())[:8]) or "nothing"
        raise CheckpointError(f"{directory} has no file {name}; it holds {others}")
    return path


def _without_digest(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != _DIGEST}


def _read_tensors(path: Path, digest: Any) -> dict[str, Tensor]:
    """Read the file once, so that what was checked is what is used."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise CheckpointError(
            f"{path} is not the file that {JSON_NAME} was written with (its SHA-256 differs): "
            f"it is {_looks_like(content)}. Copy or export the checkpoint again."
        )
    try:
        return load(content)
    except SafetensorError as error:
        raise CheckpointError(f"{path} is not a safetensors file: {error}") from error


def _looks_like(content: bytes) -> str:
    """A guess in words, for the message only."""
    if content[:4] == b"PK\x03\x04" or (content[:1] == b"\x80" and content.endswith(b".")):
        return "a pickle or .pth, which is never opened"
    if len(content) < 8:
        return f"cut off after {len(content)} bytes"
    try:
        load(content)
    except SafetensorError:
        return "cut off or damaged"
    return "the file of another checkpoint, or was changed"


def check_method(checkpoint: Checkpoint, wanted: str | Collection[str] | None) -> None:
    """A CheckpointError if the checkpoint is of another method than the caller can use."""
    _check_method(checkpoint.directory, checkpoint.metadata.method, wanted)


def _check_method(directory: Path, found: str, wanted: str | Collection[str] | None) -> None:
    wanted = (wanted,) if isinstance(wanted, str) else wanted
    if wanted is not None and found not in wanted:
        raise CheckpointError(
            f"{directory / JSON_NAME}: the checkpoint is of method {found!r}, but "
            f"{' or '.join(sorted(wanted))} is needed"
        )


def _check_tensors(
    method: str, labels: Collection[str], tensors: Mapping[str, Tensor], where: str
) -> None:
    """Check what can be checked of the tensors before a model is built."""
    rules = METHODS[method]
    check_finite(tensors, where, rules.infinite)
    if not rules.label_tensor:
        return
    counted = tensors.get(rules.label_tensor)
    if counted is None or not counted.ndim:
        raise CheckpointError(
            f"{where}: a checkpoint of method {method!r} needs the tensor {rules.label_tensor}, "
            f"which is missing"
        )
    if len(counted) != len(labels):
        raise CheckpointError(
            f"{where}: {JSON_NAME} lists {len(labels)} labels, but {rules.label_tensor} has "
            f"{len(counted)} outputs. The folder was probably edited by hand; export it again."
        )
