# SPDX-License-Identifier: Apache-2.0
"""The thesis's ablation of rejection: thresholds per class or shared, in two stages or in one.

All use the same trained network. In two stages the thresholds come from held-out samples, the very
features that the method's own were fitted on; in one they come from the samples that the
network was trained on. Besides the thresholds that the thesis learns there are those that hold a
percentile of each class's samples.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from newfound_core.open_world.head import OpenWorldHead
from newfound_core.open_world.inputs import Inputs, class_indices
from newfound_core.open_world.learner import ThresholdSamples
from newfound_core.open_world.memory import Memory, Sample
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.thresholds import exact_thresholds, own_class, percentile_thresholds
from newfound_training.openworld.measure import Queries, features_of, measure

PERCENTILE = 75.0


def trained_on(
    new: Sequence[Sample], before: Memory, thresholds_from: Sequence[Sample]
) -> list[Sample]:
    """The samples that a step trained on: new ones that were not held out, and the memory's."""
    held_out = {(sample.label, sample.source) for sample in thresholds_from if sample.held_out}
    used = [sample for sample in new if (sample.label, sample.source) not in held_out]
    return [*used, *before.training()]


def rejection_ablation(
    model: OpenWorldModel,
    test: Queries,
    inputs: Inputs,
    *,
    trained: Sequence[Sample],
    thresholds_from: ThresholdSamples,
) -> dict[str, dict[str, Any]]:
    """Metrics of each way to set thresholds."""
    fitted_on = {
        "two_stage": thresholds_from,
        "one_stage": ThresholdSamples(list(trained), features_of(model, trained, inputs)),
    }
    return {
        f"{stage}_{name}": measure(with_thresholds(model.head, thresholds), test)
        for stage, found in fitted_on.items()
        for name, thresholds in thresholds_of(model, found).items()
    }


def thresholds_of(model: OpenWorldModel, fitted_on: ThresholdSamples) -> dict[str, Tensor]:
    """The three kinds of thresholds [C] that the same samples give."""
    distances = model.head.distances(fitted_on.features)
    labels = class_indices(fitted_on.samples, model.labels).to(distances.device)
    return {
        "class_specific": exact_thresholds(distances, labels),
        "shared": shared_threshold(distances, labels),
        "percentile": percentile_thresholds(distances, labels, PERCENTILE),
    }


def shared_threshold(distances: Tensor, labels: Tensor) -> Tensor:
    """The one threshold that minimises the same loss, for all classes [C]."""
    classes = distances.shape[1]
    own = own_class(labels, classes).flatten()
    # As if every distance belonged to one class that owns as many samples as there are.
    threshold = exact_thresholds(distances.reshape(-1, 1), torch.where(own, 0, 1))
    return threshold.expand(classes)


def with_thresholds(head: OpenWorldHead, thresholds: Tensor) -> OpenWorldHead:
    """The same head with other thresholds."""
    other = copy.deepcopy(head)
    other.rejection_threshold = thresholds.to(head.rejection_threshold.dtype).clone()
    return other
