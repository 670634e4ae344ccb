# SPDX-License-Identifier: Apache-2.0
"""One step of open-world learning: new samples in, a model that knows their classes out."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from newfound_core.errors import DataError
from newfound_core.open_world.feature_training import StepData, set_trainable, train_features
from newfound_core.open_world.inputs import Inputs, Vary, chunks, class_indices
from newfound_core.open_world.memory import Memory, Sample, hold_out, select
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.step_config import EpochState, Hooks, Progress, StepConfig
from newfound_core.optimization import ProcessGroup


class ThresholdSamples(NamedTuple):
    """Samples that the thresholds were fitted on, with their features."""

    samples: list[Sample]  # held out, or those trained on where none are
    features: Tensor  # [N, D] of random variants of them


@dataclass(frozen=True)
class LearnedStep:
    """Result of a step."""

    model: OpenWorldModel
    memory: Memory
    new_labels: list[str]
    trained: bool  # whether the network changed
    thresholds_from: ThresholdSamples  # of which the memory keeps only some


def learn_step(
    model: OpenWorldModel,
    new: Sequence[Sample],
    memory: Memory,
    inputs: Inputs,
    config: StepConfig | None = None,
    *,
    hooks: Hooks | None = None,
    resume: EpochState | None = None,
    process_group: ProcessGroup | None = None,
) -> LearnedStep:
    """Learn new samples, of new classes or of known ones, and keep the old.

    `model` and `memory` are left as they are, so a step that fails or is cancelled costs
    nothing. After an interruption, call again with the same arguments and the last `EpochState`.
    The processes of a group that make the same call divide its work.
    """
    if not new:
        raise DataError("there are no new samples to learn from")
    config = config or StepConfig()
    learner = copy.deepcopy(model)
    labels = dict.fromkeys(sample.label for sample in new)
    new_labels = [label for label in labels if label not in model.labels]
    learner.head.extend(new_labels)

    generator = np.random.default_rng([config.seed, model.head.steps])
    training, held_out = hold_out(new, memory.config, len(learner.labels), generator)
    held_out = memory.held_out() + held_out
    data = StepData(training, memory.training(), inputs, learner.labels)
    run = _Run(learner, data, config, hooks or Hooks(), process_group or ProcessGroup())

    trained = run.trains()
    before = 0 if trained or model.head.steps == 0 else len(model.labels)
    if not before:
        learner.head.begin_step()
    if trained:
        run.train(model, resume)
    distances = run.refit(features_changed=trained)
    thresholds_from = run.fit_thresholds(held_out or data.samples, before)
    if trained or learner.head.calibration is None:  # a few views of one thing would spoil it
        labels_from = class_indices(thresholds_from.samples, learner.labels)
        learner.head.fit_calibration(
            thresholds_from.features, labels_from.to(thresholds_from.features.device)
        )
    learner.head.end_step()
    kept = select(
        memory.config,
        learner.labels,
        data.samples,
        distances,
        held_out=held_out,
        generator=generator,
    )
    return LearnedStep(learner, kept, new_labels, trained, thresholds_from)


@torch.no_grad()
def features_of(model: OpenWorldModel, samples: Sequence[Sample], inputs: Inputs) -> Tensor:
    """Embeddings [N, D] of samples as they are."""
    device = model.head.rejection_threshold.device
    model.eval()
    parts = [model(inputs.batch(part).to(device)) for part in chunks(samples, 200)]
    return torch.cat(parts) if parts else torch.zeros(0, model.head.dimension, device=device)


@dataclass(frozen=True)
class _Run:
    """The phases of a step, on the model that learns."""

    model: OpenWorldModel
    data: StepData
    config: StepConfig
    hooks: Hooks
    process_group: ProcessGroup

    def trains(self) -> bool:
        """Whether the method trains in this step and there is anything to train."""
        parameters = set_trainable(self.model.backbone, self.config.trainable)
        return self.model.head.trains_features and self.config.epochs > 0 and bool(parameters)

    def train(self, before: OpenWorldModel, resume: EpochState | None) -> None:
        """Train the network; from the second step on it is held to the one before."""
        distils = before.head.steps > 0 and before.head.distillation_weight > 0
        old_model = copy.deepcopy(before).eval() if distils else None
        train_features(
            self.model,
            old_model,
            self.data,
            self.config,
            hooks=self.hooks,
            resume=resume,
            process_group=self.process_group,
        )

    def refit(self, *, features_changed: bool) -> list[float]:
        """Compute the means exactly; return how far each training sample lies from its own.

        Where the features did not change, remembered samples are in the means already.
        """
        samples, head = self.data.samples, self.model.head
        features, labels = self._features(samples, "means")
        views = features
        if head.has_background:
            vary = self.data.inputs.vary_held_out
            varied = [self._features(samples, "means", vary)[0]] if vary else []
            views = torch.stack([features, *varied], 1)
            if features_changed or head.steps == 0:
                head.fit_background(views, labels)
        used = len(samples) if features_changed else len(self.data.new)
        head.refit([(views[:used], labels[:used])], features_changed=features_changed)
        return head.distances(features).gather(1, labels[:, None])[:, 0].tolist()

    def fit_thresholds(self, samples: list[Sample], before: int) -> ThresholdSamples:
        """Learn the thresholds from samples that were not trained on, where there are any.

        `before`: so many classes were there already, with features that did not change.
        """
        features, labels = self._features(samples, "thresholds", self.data.inputs.vary_held_out)
        if before:
            self.model.head.fit_added_thresholds(features, labels, before)
        else:
            self.model.head.fit_thresholds(features, labels)
        return ThresholdSamples(samples, features)

    @torch.no_grad()
    def _features(
        self, samples: Sequence[Sample], phase: str, vary: Vary | None = None
    ) -> tuple[Tensor, Tensor]:
        self.model.eval().requires_grad_(False)
        device = self.model.head.rejection_threshold.device
        generator = np.random.default_rng([self.config.seed, self.model.head.steps, 2])
        parts, done = [], 0
        for chunk in chunks(samples, self.config.batch_size):
            images = self.data.inputs.batch(chunk, vary, generator)
            parts.append(self.process_group.apply(self.model, images.to(device)))
            done += len(chunk)
            self.hooks.report(Progress(phase, done, len(samples), {}))
        return torch.cat(parts), class_indices(samples, self.model.labels).to(device)
