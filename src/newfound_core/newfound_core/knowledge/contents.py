# SPDX-License-Identifier: Apache-2.0
"""A version as a model, and the ways to write one: from a checkpoint, without a class, renamed."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from newfound_core.checkpoint import JSON_NAME, MEMORY_NAME, TENSORS_NAME
from newfound_core.errors import CheckpointError, DataError
from newfound_core.knowledge.knowledge_base import read_note
from newfound_core.metadata import Provenance
from newfound_core.models import LoadedModel, load_model, save_model
from newfound_core.open_world.heads import HEADS
from newfound_core.open_world.memory import Memory
from newfound_core.open_world.memory_features import copy_features
from newfound_core.open_world.memory_store import load_memory, save_memory
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.storage import write_bytes

METHODS = tuple(HEADS)
LIGHT_NAME = "light.safetensors"  # in a version: the shift of the light each class was learned in
Write = Callable[[Path], Iterable[str]]  # fills a folder, returns the labels of its classes


@dataclass(frozen=True)
class Knowledge:
    """An open-world model ready for use, and how much is remembered of each of its classes."""

    loaded: LoadedModel
    exemplars: Mapping[str, int]  # by label; empty without a memory
    memory_limit: int  # exemplars at most; 0 without a memory
    # Of the classes learned on this robot: the shift of the light that each was learned in, [D].
    learned_in: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def model(self) -> OpenWorldModel:
        """The network with its open-world head."""
        assert isinstance(self.loaded.model, OpenWorldModel)
        return self.loaded.model

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes it knows."""
        return self.loaded.labels

    @property
    def can_learn(self) -> bool:
        """Whether there is a memory, without which learning would mean forgetting."""
        return self.memory_limit > 0


def read_knowledge(folder: Path, device: str = "cpu") -> Knowledge:
    """Read a version, every tensor and every remembered image; raises a NewfoundError."""
    loaded = load_model(folder, METHODS, device)
    learned_in = _learned_in(folder, loaded)
    if not loaded.metadata.memory:
        return Knowledge(loaded, {}, 0, learned_in)
    memory = load_memory(folder / MEMORY_NAME)
    exemplars = {label: len(memory.samples(label)) for label in loaded.labels}
    return Knowledge(loaded, exemplars, memory.config.size, learned_in)


def _learned_in(folder: Path, loaded: LoadedModel) -> dict[str, Tensor]:
    """The record of a version; a class learned without one was learned without a shift."""
    note = read_note(folder)
    model = loaded.model
    assert isinstance(model, OpenWorldModel)
    none = torch.zeros(model.head.dimension)
    found: Mapping[str, Tensor] = {}
    if (folder / LIGHT_NAME).exists():
        found, _ = read_vectors(folder / LIGHT_NAME, model.head.dimension)
    classes = note.classes if note else {}
    learned = [label for label, entry in classes.items() if entry.origin == "learned"]
    return {label: found.get(label, none) for label in learned if label in loaded.labels}


def write_learned_in(folder: Path, learned_in: Mapping[str, Tensor]) -> None:
    """Record the shifts in a version that is being made."""
    write_bytes(folder / LIGHT_NAME, save({k: v.contiguous() for k, v in learned_in.items()}))


def read_vectors(path: Path, dimension: int) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The vectors of a file and its metadata; raises a CheckpointError if any is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            vectors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    for name, vector in vectors.items():
        if vector.shape != (dimension,) or not bool(torch.isfinite(vector).all()):
            raise CheckpointError(
                f"{path} is damaged: expected {dimension} finite numbers of {name!r}, found the "
                f"shape {list(vector.shape)}"
            )
    return vectors, metadata


def from_checkpoint(checkpoint: Path) -> Write:
    """Write a version that is a copy of a checkpoint, which is checked first."""
    return copy_of(checkpoint, lambda: read_knowledge(checkpoint).labels, MEMORY_NAME)


def copy_of(checkpoint: Path, check: Callable[[], Iterable[str]], *folders: str) -> Write:
    """Write a copy of a checkpoint with those of its folders that exist; `check` reads it."""

    def write(folder: Path) -> Iterable[str]:
        labels = check()
        for name in (JSON_NAME, TENSORS_NAME):
            shutil.copyfile(checkpoint / name, folder / name)
        for name in folders:
            if (checkpoint / name).is_dir():
                shutil.copytree(checkpoint / name, folder / name)
        return labels

    return write


def without_class(version: Path, label: str) -> Write:
    """Write a version that is another one without one of its classes, and without its images."""

    def forget(model: OpenWorldModel, memory: Memory) -> Memory:
        if model.labels == [label] and not model.head.has_background:
            raise DataError(f"{label!r} is the only class: a knowledge base keeps at least one")
        model.head.forget(label)
        return memory.without(label)

    return _changed(version, forget, {label: ""}, Provenance.now("forget", None, label, {}))


def renamed_class(version: Path, label: str, new_label: str) -> Write:
    """Write a version that is another one in which a class has another name."""

    def rename(model: OpenWorldModel, memory: Memory) -> Memory:
        labels = model.head.labels
        labels[labels.index(label)] = new_label
        return memory.renamed(label, new_label)

    data = f"{label!r} as {new_label!r}"
    return _changed(version, rename, {label: new_label}, Provenance.now("rename", None, data, {}))


def _changed(
    version: Path,
    change: Callable[[OpenWorldModel, Memory], Memory],
    names: Mapping[str, str],  # of classes that have another one then; empty: they are gone
    provenance: Provenance,
) -> Write:
    """Write a version after a change of its model and its memory."""

    def write(folder: Path) -> Iterable[str]:
        loaded = load_model(version, METHODS)
        model = loaded.model
        assert isinstance(model, OpenWorldModel)
        remembered = loaded.metadata.memory
        old = version / MEMORY_NAME
        memory = load_memory(old) if remembered else Memory()
        learned_in = _learned_in(version, loaded)
        memory = change(model, memory)

        def write_memory(place: Path) -> None:
            save_memory(memory, place)
            copy_features(old, place, memory)

        save_model(
            folder,
            model,
            model.labels,
            loaded.metadata.preprocessing,
            provenance=provenance,
            write_memory=write_memory if remembered else None,
        )
        named = {names.get(label, label): shift for label, shift in learned_in.items()}
        named.pop("", None)
        write_learned_in(folder, named)
        return model.labels

    return write
