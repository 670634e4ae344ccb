# SPDX-License-Identifier: Apache-2.0
"""What a model knows after a step: metrics, confusion, trade-off and ablation of rejection.

The thesis's ablation compares thresholds per class or shared, in two stages or in one, with the
same trained network. In two stages the thresholds come from held-out samples, the very features
that the method's own were fitted on; in one they come from the samples that the network was
trained on. Besides the thresholds that the thesis learns there are those that hold a percentile
of each class's samples.
"""

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import torch
from torch import Tensor

from newfound_core.open_world.head import UNKNOWN, Decision, OpenWorldHead, RejectWhen
from newfound_core.open_world.inputs import Inputs, class_indices
from newfound_core.open_world.learner import ThresholdSamples, features_of
from newfound_core.open_world.losses import exact_thresholds, own_class, percentile_thresholds
from newfound_core.open_world.memory import Memory, Sample
from newfound_core.open_world.metrics import evaluate
from newfound_core.open_world.model import OpenWorldModel

RULES: tuple[RejectWhen, ...] = get_args(RejectWhen)
_POINTS = 51  # of a trade-off curve


@dataclass(frozen=True)
class Queries:
    """Features of test samples and their true classes, UNKNOWN where not learned."""

    features: Tensor  # [N, D]
    truth: Tensor  # [N]


def make_queries(model: OpenWorldModel, samples: Sequence[Sample], inputs: Inputs) -> Queries:
    """Test samples as the model sees them."""
    index = {label: number for number, label in enumerate(model.labels)}
    truth = torch.tensor([index.get(s.label, UNKNOWN) for s in samples], dtype=torch.int64)
    features = features_of(model, samples, inputs)
    return Queries(features, truth.to(features.device))


def measure(head: OpenWorldHead, test: Queries) -> dict[str, Any]:
    """Metrics by both rules of rejection, fit for JSON; `chosen` is the method's own."""
    return {
        "chosen": head.config.reject_when,
        **{
            rule: asdict(evaluate(test.truth, with_rule(head, rule).decide(test.features)))
            for rule in RULES
        },
    }


def with_rule(head: OpenWorldHead, rule: RejectWhen) -> OpenWorldHead:
    """The same head deciding by another rule; means and thresholds are shared."""
    other = copy.copy(head)
    other.config = replace(head.config, reject_when=rule)
    return other


def confusion(head: OpenWorldHead, test: Queries) -> list[list[int]]:
    """Counts of decisions: true class (row, the last one unknown) by decided class (column)."""
    classes = len(head.labels)
    decided = head.decide(test.features).label
    pairs = torch.where(test.truth == UNKNOWN, classes, test.truth) * (classes + 1)
    pairs = pairs + torch.where(decided == UNKNOWN, classes, decided)
    counts = pairs.bincount(minlength=(classes + 1) ** 2)
    return counts.view(classes + 1, classes + 1).tolist()


def trade_off(head: OpenWorldHead, test: Queries) -> dict[str, Any]:
    """Share of knowns still named right, and of unknowns rejected, over all thresholds.

    `at_threshold` is the point at which the method itself decides.
    """
    decision = head.decide(test.features)
    levels = decision.score.double().quantile(
        torch.linspace(0, 1, _POINTS, dtype=torch.float64, device=decision.score.device)
    )
    return {
        "curve": [_point(decision, test.truth, decision.score.double() > v) for v in levels],
        "at_threshold": _point(decision, test.truth, decision.known),
    }


def _point(decision: Decision, truth: Tensor, accepted: Tensor) -> list[float]:
    known = truth != UNKNOWN
    right = (decision.nearest == truth) & accepted
    return [_mean(right[known]), _mean(~accepted[~known])]


def _mean(values: Tensor) -> float:
    return float(values.double().mean()) if len(values) else 0.0


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
