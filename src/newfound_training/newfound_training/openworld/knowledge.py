# SPDX-License-Identifier: Apache-2.0
"""A learning step on a whole checkpoint: only what is behind the frozen stages is computed often.

The frozen stages see every remembered image once; every epoch after that costs what the last
stages cost. Their output is kept in the job's folder, so a resumed job does not pay twice.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from newfound_core.backbones import Backbone
from newfound_core.errors import CheckpointError
from newfound_core.models import LoadedModel, load_model
from newfound_core.open_world.heads import HEADS
from newfound_core.open_world.inputs import chunks
from newfound_core.open_world.memory import Memory, Sample
from newfound_core.open_world.memory_store import load_memory
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.selection import by_label
from newfound_training.openworld.maps import Trunk, cached_maps
from newfound_training.openworld.material import cut

_CHUNK = 25  # samples between two reports
_LAST_CONVOLUTION = ("conv_head", "bn2")  # behind the last stage proper of many networks


@dataclass(frozen=True)
class Knowledge:
    """A checkpoint and its memory."""

    loaded: LoadedModel
    memory: Memory

    @property
    def model(self) -> OpenWorldModel:
        """The model of the checkpoint."""
        assert isinstance(self.loaded.model, OpenWorldModel)
        return self.loaded.model

    @property
    def backbone(self) -> Backbone:
        """Its network."""
        assert isinstance(self.model.backbone, Backbone)
        return self.model.backbone


def load_knowledge(directory: Path, device: torch.device | str = "cpu") -> Knowledge:
    """Reads an open-world checkpoint; one without a memory cannot go on learning."""
    loaded = load_model(directory, tuple(HEADS), device)
    if not loaded.metadata.memory:
        raise CheckpointError(f"{directory} has no memory: it cannot learn without forgetting")
    return Knowledge(loaded, load_memory(directory / "memory"))


def default_frozen_stages(backbone: Backbone) -> int:
    """All but the last stage, which learns, with what follows it."""
    names = [name for name, _ in backbone.stages.named_children()]
    trained = 1 + sum(name in _LAST_CONVOLUTION for name in names)
    return 1 + len(names) - trained


class MappedSamples:
    """Samples as the frozen stages see them, and back.

    A mapped sample carries the number of its original in `source`.
    """

    def __init__(self, knowledge: Knowledge, frozen_stages: int, folder: Path) -> None:
        trunk, self.rest = cut(knowledge.backbone, frozen_stages)
        self._preprocessing = knowledge.loaded.metadata.preprocessing
        self._trunk = Trunk(trunk, self._preprocessing, knowledge.loaded.device)
        self._folder = folder
        self._originals: list[Sample] = []

    def map(
        self,
        samples: Sequence[Sample],
        crops: int | None,
        on_done: Callable[[int], None] = lambda done: None,
    ) -> list[Sample]:
        """What the frozen stages make of samples, and of `crops` random variants of each."""
        mapped: list[Sample] = []
        for part in chunks(samples, _CHUNK):
            images = [self._preprocessing.resized(sample.pixels()) for sample in part]
            wanted = {"": ([_digest(image) for image in images], images)}
            maps = cached_maps(self._trunk, wanted, crops, self._folder)[""]
            for sample, values in zip(part, maps, strict=True):
                mapped.append(replace(sample, image=values, source=str(len(self._originals))))
                self._originals.append(sample)
            on_done(len(mapped))
        return mapped

    def map_memory(self, memory: Memory, on_done: Callable[[int], None]) -> Memory:
        """A memory of mapped samples, without variants."""
        samples = [s for label in memory.labels for s in memory.samples(label)]
        return Memory(memory.config, by_label(self.map(samples, None, on_done)))

    def originals(self, memory: Memory) -> Memory:
        """The memory with the images that its mapped samples were made of."""
        kept = {
            label: [self._original(sample) for sample in memory.samples(label)]
            for label in memory.labels
        }
        return Memory(memory.config, kept)

    def _original(self, mapped: Sample) -> Sample:
        return replace(self._originals[int(mapped.source)], held_out=mapped.held_out)


def _digest(image: np.ndarray) -> str:
    return hashlib.sha256(image.tobytes()).hexdigest()
