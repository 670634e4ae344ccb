# SPDX-License-Identifier: Apache-2.0
"""One run of a protocol: step after step, measured after each, resumable at any moment."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from newfound_core.errors import CheckpointError
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.learner import LearnedStep, learn_step
from newfound_core.open_world.memory import Memory, Sample
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.step_config import EpochState, Hooks, Progress
from newfound_core.resume import FinishedSteps, Names, StateFolder, names_of
from newfound_training.openworld.dataset import OpenWorldDataset, Protocol
from newfound_training.openworld.measures import (
    confusion,
    make_queries,
    measure,
    rejection_ablation,
    trade_off,
    trained_on,
)
from newfound_training.openworld.options import Setting
from newfound_training.running.distributed import DistributedGroup, synchronize_batchnorm


@dataclass(frozen=True)
class Outcome:
    """Result of a run."""

    model: OpenWorldModel  # around the part of the network behind the frozen trunk
    memory: Memory
    records: list[dict[str, Any]]  # one per step


@dataclass(frozen=True)
class Incremental:
    """A method, a protocol, a seed."""

    dataset: OpenWorldDataset
    protocol: Protocol
    setting: Setting
    memory_size: int
    seed: int
    folder: Path  # of the state
    device: torch.device
    feature_dim: int
    on_epoch: Callable[[int, EpochState], None] = lambda step, state: None
    process_group: DistributedGroup = field(default_factory=DistributedGroup)

    def run(self) -> Outcome:
        """Go on where an interrupted run stopped, and end as it would have ended."""
        state = StateFolder(self.folder)
        outcome = self._restored(state.finished())
        for step in range(len(outcome.records), len(self.protocol.steps)):
            new = self.dataset.samples(self.protocol.steps[step])
            learned = self._learn(step, new, outcome, state)
            trained = trained_on(new, outcome.memory, learned.thresholds_from.samples)
            record = self._record(step, learned, trained)
            outcome = Outcome(learned.model, learned.memory, [*outcome.records, record])
            if self.process_group.is_main_process:
                state.save_finished(_finished(outcome))
        return outcome

    def _learn(
        self, step: int, new: Sequence[Sample], before: Outcome, state: StateFolder
    ) -> LearnedStep:
        title = f"step {step + 1} of {len(self.protocol.steps)}"
        resume = state.epoch(step)
        self.process_group.barrier()  # all have read the state before it is replaced
        hidden = None if self.process_group.is_main_process else True
        with tqdm(desc=title, disable=hidden, leave=False) as bar:

            def show(progress: Progress) -> None:
                if bar.total != progress.total or bar.n > progress.done:
                    bar.reset(progress.total)
                bar.set_description(f"{title}, {progress.phase}", refresh=False)
                bar.update(progress.done - bar.n)

            def keep(epoch: EpochState) -> None:
                if self.process_group.is_main_process:
                    state.save_epoch(step, epoch)
                self.on_epoch(step, epoch)

            return learn_step(
                before.model,
                new,
                before.memory,
                self.dataset.inputs,
                self.setting.step_config(step, self.seed),
                hooks=Hooks(show, keep),
                resume=resume,
                process_group=self.process_group,
            )

    def _record(
        self, step: int, learned: LearnedStep, trained: Sequence[Sample]
    ) -> dict[str, Any]:
        model, inputs = learned.model, self.dataset.inputs
        classes = [*model.labels, *self.protocol.unknown]
        samples = [sample for label in classes for sample in self.dataset.test[label]]
        test = make_queries(model, samples, inputs)
        record = {
            "new_classes": list(self.protocol.steps[step]),
            "known_classes": len(model.labels),
            "remembered": len(learned.memory),
            "metrics": measure(model.head, test),
        }
        if self.setting.method == "bdoc":
            record["rejection"] = rejection_ablation(
                model, test, inputs, trained=trained, thresholds_from=learned.thresholds_from
            )
        if step + 1 == len(self.protocol.steps):
            record["confusion"] = confusion(model.head, test)
            record["trade_off"] = trade_off(model.head, test)
        return record

    def _restored(self, state: FinishedSteps | None) -> Outcome:
        network = copy.deepcopy(self.dataset.network)
        synchronize_batchnorm(network, self.process_group, self.device)
        config = self.setting.memory_config(self.memory_size)
        if state is None:
            head = build_head(self.setting.method, self.feature_dim, **self.setting.head)
            model = OpenWorldModel(network, head, self.setting.embedding)
            return Outcome(model.to(self.device), Memory(config), [])
        model = OpenWorldModel.from_options(network, state.options)
        model.load_tensors(state.tensors)
        memory = Memory(config, restored_samples(state.memory, self.dataset))
        return Outcome(model.to(self.device), memory, state.records)


def _finished(outcome: Outcome) -> FinishedSteps:
    return FinishedSteps(
        len(outcome.records),
        outcome.model.options(),
        outcome.model.state_dict(),
        names_of(outcome.memory),
        outcome.records,
    )


def restored_samples(names: Names, dataset: OpenWorldDataset) -> dict[str, list[Sample]]:
    """The samples of a memory that was kept as names."""
    samples = {}
    for label, entries in names.items():
        by_name = {sample.source: sample for sample in dataset.training[label]}
        missing = [name for name, _ in entries if name not in by_name]
        if missing:
            raise CheckpointError(
                f"the interrupted run remembers {missing[0]}, which is no longer in the data"
            )
        samples[label] = [
            Sample(by_name[name].image, label, name, held_out) for name, held_out in entries
        ]
    return samples
