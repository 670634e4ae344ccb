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
from newfound_training.openworld.material import Material
from newfound_training.openworld.measure import confusion, make_queries, measure, trade_off
from newfound_training.openworld.protocol import Protocol
from newfound_training.openworld.rejection import rejection_ablation, trained_on
from newfound_training.openworld.settings import Setting
from newfound_training.openworld.state import FinishedSteps, Names, StateFolder, names_of
from newfound_training.running.distributed import Team, share_statistics


@dataclass(frozen=True)
class Outcome:
    """What a run leaves behind."""

    model: OpenWorldModel  # around the part of the network behind the frozen trunk
    memory: Memory
    records: list[dict[str, Any]]  # one per step


@dataclass(frozen=True)
class Incremental:
    """A method, a protocol, a seed."""

    material: Material
    protocol: Protocol
    setting: Setting
    memory_size: int
    seed: int
    folder: Path  # of the state
    device: torch.device
    feature_dim: int
    on_epoch: Callable[[int, EpochState], None] = lambda step, state: None
    team: Team = field(default_factory=Team)

    def run(self) -> Outcome:
        """Goes on where an interrupted run stopped, and ends as it would have ended."""
        state = StateFolder(self.folder)
        outcome = self._restored(state.finished())
        for step in range(len(outcome.records), len(self.protocol.steps)):
            new = self.material.samples(self.protocol.steps[step])
            learned = self._learn(step, new, outcome, state)
            trained = trained_on(new, outcome.memory, learned.thresholds_from.samples)
            record = self._record(step, learned, trained)
            outcome = Outcome(learned.model, learned.memory, [*outcome.records, record])
            if self.team.leads:
                state.save_finished(_finished(outcome))
        return outcome

    def _learn(
        self, step: int, new: Sequence[Sample], before: Outcome, state: StateFolder
    ) -> LearnedStep:
        title = f"step {step + 1} of {len(self.protocol.steps)}"
        resume = state.epoch(step)
        self.team.wait()  # nobody overwrites the state while another still reads it
        hidden = None if self.team.leads else True
        with tqdm(desc=title, disable=hidden, leave=False) as bar:

            def show(progress: Progress) -> None:
                if bar.total != progress.total or bar.n > progress.done:
                    bar.reset(progress.total)
                bar.set_description(f"{title}, {progress.phase}", refresh=False)
                bar.update(progress.done - bar.n)

            def keep(epoch: EpochState) -> None:
                if self.team.leads:
                    state.save_epoch(step, epoch)
                self.on_epoch(step, epoch)

            return learn_step(
                before.model,
                new,
                before.memory,
                self.material.inputs,
                self.setting.step_config(step, self.seed),
                hooks=Hooks(show, keep),
                resume=resume,
                sharing=self.team,
            )

    def _record(
        self, step: int, learned: LearnedStep, trained: Sequence[Sample]
    ) -> dict[str, Any]:
        model, inputs = learned.model, self.material.inputs
        classes = [*model.labels, *self.protocol.unknown]
        samples = [sample for label in classes for sample in self.material.test[label]]
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
        network = copy.deepcopy(self.material.network)
        share_statistics(network, self.team)
        config = self.setting.memory_config(self.memory_size)
        if state is None:
            head = build_head(self.setting.method, self.feature_dim, **self.setting.head)
            model = OpenWorldModel(network, head, self.setting.embedding)
            return Outcome(model.to(self.device), Memory(config), [])
        model = OpenWorldModel.from_options(network, state.options)
        model.load_tensors(state.tensors)
        memory = Memory(config, restored_samples(state.memory, self.material))
        return Outcome(model.to(self.device), memory, state.records)


def _finished(outcome: Outcome) -> FinishedSteps:
    return FinishedSteps(
        len(outcome.records),
        outcome.model.options(),
        outcome.model.state_dict(),
        names_of(outcome.memory),
        outcome.records,
    )


def restored_samples(names: Names, material: Material) -> dict[str, list[Sample]]:
    """The samples of a memory that was kept as names."""
    samples = {}
    for label, entries in names.items():
        by_name = {sample.source: sample for sample in material.training[label]}
        missing = [name for name, _ in entries if name not in by_name]
        if missing:
            raise CheckpointError(
                f"the interrupted run remembers {missing[0]}, which is no longer in the data"
            )
        samples[label] = [
            Sample(by_name[name].image, label, name, held_out) for name, held_out in entries
        ]
    return samples
