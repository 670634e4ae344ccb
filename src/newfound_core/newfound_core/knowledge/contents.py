# SPDX-License-Identifier: Apache-2.0
"""A version as a model, and the ways to write one: from a shipped checkpoint, without a class."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from newfound_core.checkpoint import JSON_NAME, MEMORY_NAME, TENSORS_NAME
from newfound_core.errors import DataError
from newfound_core.metadata import Provenance
from newfound_core.models import LoadedModel, load_model, save_model
from newfound_core.open_world.heads import HEADS
from newfound_core.open_world.memory_store import load_memory, save_memory
from newfound_core.open_world.model import OpenWorldModel

METHODS = tuple(HEADS)
Write = Callable[[Path], Iterable[str]]  # fills a folder, returns the labels of its classes


@dataclass(frozen=True)
class Knowledge:
    """An open-world model ready for use, and how much is remembered of each of its classes."""

    loaded: LoadedModel
    exemplars: Mapping[str, int]  # by label; empty without a memory
    memory_limit: int  # exemplars at most; 0 without a memory

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
    if not loaded.metadata.memory:
        return Knowledge(loaded, {}, 0)
    memory = load_memory(folder / MEMORY_NAME)
    exemplars = {label: len(memory.samples(label)) for label in loaded.labels}
    return Knowledge(loaded, exemplars, memory.config.size)


def from_checkpoint(checkpoint: Path) -> Write:
    """Write a version that is a copy of a checkpoint, which is checked first."""

    def write(folder: Path) -> Iterable[str]:
        labels = read_knowledge(checkpoint).labels
        for name in (JSON_NAME, TENSORS_NAME):
            shutil.copyfile(checkpoint / name, folder / name)
        if (checkpoint / MEMORY_NAME).is_dir():
            shutil.copytree(checkpoint / MEMORY_NAME, folder / MEMORY_NAME)
        return labels

    return write


def without_class(version: Path, label: str) -> Write:
    """Write a version that is another one without one of its classes, and without its images."""

    def write(folder: Path) -> Iterable[str]:
        loaded = load_model(version, METHODS)
        model = loaded.model
        assert isinstance(model, OpenWorldModel)
        if model.labels == [label] and not model.head.has_background:
            raise DataError(f"{label!r} is the only class: a knowledge base keeps at least one")
        model.head.forget(label)
        memory = load_memory(version / MEMORY_NAME) if loaded.metadata.memory else None
        save_model(
            folder,
            model,
            model.labels,
            loaded.metadata.preprocessing,
            provenance=Provenance.now("forget", None, f"without {label!r}", {}),
            write_memory=None
            if memory is None
            else lambda place: save_memory(memory.without(label), place),
        )
        return model.labels

    return write
