# SPDX-License-Identifier: Apache-2.0
"""Learning one class from a job: the frozen stages once, the last ones in epochs, then a check."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from newfound_core.metadata import Provenance
from newfound_core.models import save_model
from newfound_core.open_world.inputs import class_indices
from newfound_core.open_world.job import ClassAccuracy, Job, LearningOptions
from newfound_core.open_world.learner import LearnedStep, learn_step
from newfound_core.open_world.memory import Memory, Sample
from newfound_core.open_world.memory_store import save_memory
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.step_config import Hooks, StepConfig
from newfound_training.openworld.job_progress import JobReporter
from newfound_training.openworld.knowledge import (
    Knowledge,
    MappedSamples,
    default_frozen_stages,
)
from newfound_training.openworld.material import cut, map_inputs
from newfound_training.openworld.measure import features_of
from newfound_training.openworld.settings import make_setting
from newfound_training.openworld.state import StateFolder
from newfound_training.running.card import write_model_card


@dataclass(frozen=True)
class LearnedClass:
    """The new knowledge, not yet on disk."""

    model: OpenWorldModel  # with the whole network
    memory: Memory  # of images
    accuracy: dict[str, ClassAccuracy]

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
    reporter: JobReporter,
) -> LearnedClass:
    """Learns; killed at any moment and called again, it ends with the same result."""
    frozen = job.options.frozen_stages
    if frozen is None:
        frozen = default_frozen_stages(knowledge.backbone)
    mapped = MappedSamples(knowledge, frozen, state / "maps")
    crops = job.options.crops if job.options.epochs else 0
    memory, samples = _map_all(mapped, knowledge.memory, new, crops, reporter)
    before = OpenWorldModel(mapped.rest, knowledge.model.head, knowledge.model.embedding).eval()
    step = _learn(before, samples, memory, options=job.options, state=state, reporter=reporter)
    reporter.report("checking")
    accuracy = _accuracies(before, memory, step)
    return LearnedClass(
        _whole_model(knowledge, step.model, frozen), mapped.originals(step.memory), accuracy
    )


def _map_all(
    mapped: MappedSamples,
    memory: Memory,
    new: Sequence[Sample],
    crops: int,
    reporter: JobReporter,
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
    reporter: JobReporter,
) -> LearnedStep:
    number = before.head.steps
    folder = StateFolder(state)
    return learn_step(
        before,
        samples,
        memory,
        map_inputs(),
        step_config(before.head.name, options),
        hooks=Hooks(
            on_progress=lambda p: reporter.report(p.phase, p.done, p.total),
            on_epoch_end=lambda epoch: folder.save_epoch(number, epoch),
        ),
        resume=folder.epoch(number),
    )


def step_config(method: str, options: LearningOptions) -> StepConfig:
    """How the step trains: what was chosen for the method, but for what the job says."""
    chosen: dict[str, Any] = dict(make_setting(method, method, {}).step)
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
    decided = model.head.decide(features_of(model, samples, map_inputs())).label
    right = decided == class_indices(samples, model.labels).to(decided.device)
    found: dict[str, list[bool]] = {}
    for sample, correct in zip(samples, right.tolist(), strict=True):
        found.setdefault(sample.label, []).append(correct)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _whole_model(knowledge: Knowledge, learned: OpenWorldModel, frozen: int) -> OpenWorldModel:
    backbone = copy.deepcopy(knowledge.backbone)
    cut(backbone, frozen)[1].load_state_dict(learned.backbone.state_dict())
    return OpenWorldModel(backbone, learned.head, learned.embedding).eval()


def save_knowledge(
    directory: Path, learned: LearnedClass, knowledge: Knowledge, job: Job, new_images: int
) -> None:
    """Writes the new checkpoint, memory included, in one step, and its model card."""
    metadata = knowledge.loaded.metadata
    provenance = Provenance.now(
        "python -m newfound_training learn",
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
        write_memory=lambda folder: save_memory(learned.memory, folder),
        replace=True,
    )
    write_model_card(
        checkpoint,
        f"Open-world recognition of {len(learned.model.labels)} classes",
        f"Learned {job.label!r} from {new_images} images; accuracies are shares of held-out "
        "samples, of the classes known before and of the new one.",
        {"remembered images": len(learned.memory)},
    )


def limit_threads(threads: int) -> None:
    """How many cores the job may use."""
    if threads > 0:
        torch.set_num_threads(threads)
