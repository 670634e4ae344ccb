# SPDX-License-Identifier: Apache-2.0
"""Learn one class from a job: the frozen stages once, the last ones in epochs, then a check.

The frozen stages see every remembered image once; every epoch after that costs what the last
stages cost. Their output is kept in the job's folder, so a resumed job does not pay twice. Where
nothing trains, all stages are frozen, and features of remembered images are part of the memory.
"""

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
import torch
from torch import nn

from newfound_core.backbones import Backbone
from newfound_core.checkpoint import MEMORY_NAME
from newfound_core.errors import CheckpointError
from newfound_core.frozen_features import (
    PLAIN,
    FrozenStages,
    cached_features,
    cached_inputs,
    split_frozen,
)
from newfound_core.learning.job import ClassAccuracy, Job, LearningOptions
from newfound_core.metadata import Provenance
from newfound_core.models import LoadedModel, load_model, save_model, write_model_card
from newfound_core.open_world.heads import CHOSEN, HEADS
from newfound_core.open_world.inputs import chunks, class_indices
from newfound_core.open_world.learner import LearnedStep, features_of, learn_step
from newfound_core.open_world.memory import Memory, Sample, by_label
from newfound_core.open_world.memory_features import load_features, save_features
from newfound_core.open_world.memory_store import load_memory, sample_id, save_memory
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.step_config import Hooks, StepConfig
from newfound_core.resume import StateFolder

_CHUNK = 25  # samples between two reports
_LAST_CONVOLUTION = ("conv_head", "bn2")  # behind the last stage proper of many networks
_JPEG_QUALITY = 95  # of remembered images, 1 to 100
_STEP_OPTIONS = set(StepConfig.__dataclass_fields__) - {"seed", "trainable"}


class Reporter(Protocol):
    """What learning tells about its progress; raises LearningCancelledError to stop it."""

    def report(self, phase: str, done: int = 0, total: int = 1) -> None:
        """Say how much of a phase is done."""
        ...


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
    """Read an open-world checkpoint; one without a memory cannot go on learning."""
    loaded = load_model(directory, tuple(HEADS), device)
    if not loaded.metadata.memory:
        raise CheckpointError(f"{directory} has no memory: it cannot learn without forgetting")
    return Knowledge(loaded, load_memory(directory / "memory"))


def without(knowledge: Knowledge, label: str) -> Knowledge:
    """The same without a class and its images; the model is changed in place."""
    knowledge.model.head.forget(label)
    # What is loaded says which labels it came with; only the model's own count from here on.
    return Knowledge(knowledge.loaded, knowledge.memory.without(label))


def default_frozen_stages(backbone: Backbone) -> int:
    """All but the last stage, which learns, with what follows it."""
    names = [name for name, _ in backbone.stages.named_children()]
    trained = 1 + sum(name in _LAST_CONVOLUTION for name in names)
    return 1 + len(names) - trained


class MappedSamples:
    """Samples as the frozen stages see them, and back.

    A mapped sample carries the number of its original in `source`.
    """

    def __init__(self, knowledge: Knowledge, frozen_stages: int | None, folder: Path) -> None:
        """`frozen_stages` None: the whole network."""
        frozen: nn.Module = knowledge.backbone
        self.rest: nn.Module = nn.Identity()
        if frozen_stages is not None:
            frozen, self.rest = split_frozen(knowledge.backbone, frozen_stages)
        self._preprocessing = knowledge.loaded.metadata.preprocessing
        self._frozen = FrozenStages(frozen, self._preprocessing, knowledge.loaded.device)
        self.network = self._frozen.digest()
        self._known: dict[str, np.ndarray] = {}  # features of plain images, by their names
        if frozen_stages is None:
            memory = knowledge.loaded.directory / MEMORY_NAME
            self._known = load_features(memory, self.network)
        self._folder = folder
        self._originals: list[Sample] = []
        self._plain: list[np.ndarray] = []  # features of the originals

    def map(
        self,
        samples: Sequence[Sample],
        crops: int | None,
        on_done: Callable[[int], None] = lambda done: None,
    ) -> list[Sample]:
        """What the frozen stages make of samples, and of `crops` random variants of each."""
        mapped: list[Sample] = []
        for part in chunks(samples, _CHUNK):
            for sample, values in zip(part, self._features(part, crops), strict=True):
                mapped.append(replace(sample, image=values, source=str(len(self._originals))))
                self._originals.append(sample)
                self._plain.append(values[PLAIN])
            on_done(len(mapped))
        return mapped

    def _features(self, samples: Sequence[Sample], crops: int | None) -> list[np.ndarray]:
        """Features [variants, ...] of each sample."""
        known: dict[int, np.ndarray] = {}
        if self._known and crops is None:
            names = [sample_id(sample) for sample in samples]
            known = {
                i: self._known[name][None] for i, name in enumerate(names) if name in self._known
            }
        others = [sample for i, sample in enumerate(samples) if i not in known]
        if others:
            images = [self._preprocessing.resized(sample.pixels()) for sample in others]
            wanted = {"": ([_digest(image) for image in images], images)}
            found = cached_features(self._frozen, wanted, crops, self._folder, quiet=True)
            computed = iter(found[""])
            known |= {i: next(computed) for i in range(len(samples)) if i not in known}
        return [known[i] for i in range(len(samples))]

    def features(self, memory: Memory) -> dict[str, np.ndarray]:
        """Features of the mapped samples of a memory, by the names of their images."""
        numbers = [int(s.source) for label in memory.labels for s in memory.samples(label)]
        return {sample_id(self._originals[n]): self._plain[n] for n in numbers}

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


@dataclass(frozen=True)
class LearnedClass:
    """The new knowledge, not yet on disk."""

    model: OpenWorldModel  # with the whole network
    memory: Memory  # of images
    accuracy: dict[str, ClassAccuracy]
    network: str = ""  # digest of what made the features
    features: Mapping[str, np.ndarray] = field(default_factory=dict)  # of remembered images

    def metrics(self, label: str) -> dict[str, float]:
        """What was measured on held-out samples, for the provenance and the model card."""
        before = [a.before for a in self.accuracy.values() if a.before is not None]
        after = [a.after for a in self.accuracy.values() if a.before is not None]
        found: dict[str, float] = {}
        if before:
            found |= {"known_accuracy_before": _mean(before), "known_accuracy": _mean(after)}
        if label in self.accuracy:
            found["new_accuracy"] = self.accuracy[label].after
        return found


def learn_class(
    knowledge: Knowledge,
    job: Job,
    new: Sequence[Sample],
    state: Path,
    reporter: Reporter,
) -> LearnedClass:
    """Learn; killed at any moment and called again, it ends with the same result."""
    frozen, options = None, job.options
    assert isinstance(options, LearningOptions)
    if options.epochs:
        frozen = options.frozen_stages
        frozen = default_frozen_stages(knowledge.backbone) if frozen is None else frozen
    mapped = MappedSamples(knowledge, frozen, state / "features")
    crops = options.crops if options.epochs else 0
    memory, samples = _map_all(mapped, knowledge.memory, new, crops, reporter)
    before = OpenWorldModel(mapped.rest, knowledge.model.head, knowledge.model.embedding).eval()
    step = _learn(before, samples, memory, options=options, state=state, reporter=reporter)
    reporter.report("checking")
    accuracy = _accuracies(before, memory, step)
    return LearnedClass(
        _whole_model(knowledge, step.model, frozen),
        mapped.originals(step.memory),
        accuracy,
        mapped.network,
        mapped.features(step.memory) if frozen is None else {},
    )


def _map_all(
    mapped: MappedSamples,
    memory: Memory,
    new: Sequence[Sample],
    crops: int,
    reporter: Reporter,
) -> tuple[Memory, list[Sample]]:
    total = len(memory) + (2 + crops) * len(new)
    remembered = mapped.map_memory(memory, lambda n: reporter.report("features", n, total))

    def show(done: int) -> None:
        reporter.report("features", len(memory) + (2 + crops) * done, total)

    return remembered, mapped.map(new, crops, show)


def _learn(
    before: OpenWorldModel,
    samples: Sequence[Sample],
    memory: Memory,
    *,
    options: LearningOptions,
    state: Path,
    reporter: Reporter,
) -> LearnedStep:
    number = before.head.steps
    folder = StateFolder(state)
    return learn_step(
        before,
        samples,
        memory,
        cached_inputs(),
        step_config(before.head.name, options),
        hooks=Hooks(
            on_progress=lambda p: reporter.report(p.phase, p.done, p.total),
            on_epoch_end=lambda epoch: folder.save_epoch(number, epoch),
        ),
        resume=folder.epoch(number),
    )


def step_config(method: str, options: LearningOptions) -> StepConfig:
    """How the step trains: what was chosen for the method, but for what the job says."""
    chosen: dict[str, Any] = {k: v for k, v in CHOSEN[method].items() if k in _STEP_OPTIONS}
    chosen |= {"epochs": options.epochs, "batch_size": options.batch_size, "seed": options.seed}
    if options.learning_rate is not None:
        chosen["learning_rate"] = options.learning_rate
    return StepConfig(**chosen)


def _accuracies(
    before: OpenWorldModel, memory: Memory, step: LearnedStep
) -> dict[str, ClassAccuracy]:
    """Shares of held-out samples given their class, by the model before and after."""
    old_samples = memory.held_out() or memory.training()
    known = {sample.source for sample in old_samples}
    kept = step.memory.held_out() or step.memory.training()
    new_samples = [s for s in kept if s.source not in known and s.label not in before.labels]
    old = _right_by_class(before, old_samples)
    now = _right_by_class(step.model, [*old_samples, *new_samples])
    return {
        label: ClassAccuracy(len(right), _mean(old[label]) if label in old else None, _mean(right))
        for label, right in now.items()
    }


def _right_by_class(model: OpenWorldModel, samples: Sequence[Sample]) -> dict[str, list[bool]]:
    if not samples:
        return {}
    decided = model.head.decide(features_of(model, samples, cached_inputs())).label
    right = decided == class_indices(samples, model.labels).to(decided.device)
    found: dict[str, list[bool]] = {}
    for sample, correct in zip(samples, right.tolist(), strict=True):
        found.setdefault(sample.label, []).append(correct)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _whole_model(
    knowledge: Knowledge, learned: OpenWorldModel, frozen: int | None
) -> OpenWorldModel:
    backbone = copy.deepcopy(knowledge.backbone)
    if frozen is not None:
        split_frozen(backbone, frozen)[1].load_state_dict(learned.backbone.state_dict())
    return OpenWorldModel(backbone, learned.head, learned.embedding).eval()


def save_learned(
    directory: Path, learned: LearnedClass, knowledge: Knowledge, job: Job, new_images: int
) -> None:
    """Write the new checkpoint, memory included, in one step, and its model card."""
    metadata = knowledge.loaded.metadata

    def write_memory(folder: Path) -> None:
        save_memory(learned.memory, folder)
        save_features(folder, learned.network, learned.features)

    provenance = Provenance.now(
        "python -m newfound_core.learning",
        job.options.seed,
        f"{job.label!r} on top of {metadata.provenance.data}",
        learned.metrics(job.label),
    )
    checkpoint = save_model(
        directory,
        learned.model,
        learned.model.labels,
        metadata.preprocessing,
        provenance=provenance,
        write_memory=write_memory,
        replace=True,
    )
    write_model_card(
        checkpoint,
        f"Open-world recognition of {len(learned.model.labels)} classes",
        f"Learned {job.label!r} from {new_images} images; accuracies are shares of held-out "
        "samples, of the classes known before and of the new one.",
        {"remembered images": len(learned.memory)},
    )


def reduced(sample: Sample, size: int) -> Sample:
    """The sample with sides of two to four times the network's input, if both are larger.

    Halved by averaging, as the network's own preprocessing begins: it sees the same. Raises a
    DataError if the image cannot be decoded.
    """
    pixels = sample.pixels()
    if min(pixels.shape[:2]) < 4 * size:
        return sample
    while min(pixels.shape[:2]) >= 4 * size:
        half = (pixels.shape[1] // 2, pixels.shape[0] // 2)
        pixels = cv2.resize(pixels, half, interpolation=cv2.INTER_AREA)
    quality = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY]
    bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    return replace(sample, image=cv2.imencode(".jpg", bgr, quality)[1].tobytes())
