# SPDX-License-Identifier: Apache-2.0
"""The thesis's ablation of rejection: limits per class or shared, in two stages or in one.

All use the same trained network. In two stages the limits come from held-out samples, the very
features that the method's own limits were fitted on; in one they come from the samples that the
network was trained on. Besides the limits that the thesis learns there are those that hold a
percentile of each class's samples.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from newfound_core.open_world.head import OpenWorldHead
from newfound_core.open_world.inputs import Inputs, class_indices
from newfound_core.open_world.learner import LimitSamples
from newfound_core.open_world.limits import exact_limits, own_class, percentile_limits
from newfound_core.open_world.memory import Memory, Sample
from newfound_core.open_world.model import OpenWorldModel
from newfound_training.openworld.measure import Queries, features_of, measure

PERCENTILE = 75.0


def trained_on(
    new: Sequence[Sample], before: Memory, limits_from: Sequence[Sample]
) -> list[Sample]:
    """The samples that a step trained on: new ones that were not held out, and the memory's."""
    held_out = {(sample.label, sample.source) for sample in limits_from if sample.held_out}
    used = [sample for sample in new if (sample.label, sample.source) not in held_out]
    return [*used, *before.training()]


def rejection_ablation(
    model: OpenWorldModel,
    test: Queries,
    inputs: Inputs,
    *,
    trained: Sequence[Sample],
    limits_from: LimitSamples,
) -> dict[str, dict[str, Any]]:
    """Metrics of each way to set limits."""
    fitted_on = {
        "two_stage": limits_from,
        "one_stage": LimitSamples(list(trained), features_of(model, trained, inputs)),
    }
    return {
        f"{stage}_{name}": measure(with_limits(model.head, limits), test)
        for stage, found in fitted_on.items()
        for name, limits in limits_of(model, found).items()
    }


def limits_of(model: OpenWorldModel, fitted_on: LimitSamples) -> dict[str, Tensor]:
    """The three kinds of limits [C] that the same samples give."""
    distances = model.head.distances(fitted_on.features)
    labels = class_indices(fitted_on.samples, model.labels).to(distances.device)
    return {
        "class_specific": exact_limits(distances, labels),
        "shared": shared_limit(distances, labels),
        "percentile": percentile_limits(distances, labels, PERCENTILE),
    }


def shared_limit(distances: Tensor, labels: Tensor) -> Tensor:
    """The one limit that minimises the same loss, for all classes [C]."""
    classes = distances.shape[1]
    own = own_class(labels, classes).flatten()
    # As if every distance belonged to one class that owns as many samples as there are.
    limit = exact_limits(distances.reshape(-1, 1), torch.where(own, 0, 1))
    return limit.expand(classes)


def with_limits(head: OpenWorldHead, limits: Tensor) -> OpenWorldHead:
    """The same head with other limits."""
    other = copy.deepcopy(head)
    other.limit = limits.to(head.limit.dtype).clone()
    return other
