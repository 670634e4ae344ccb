# SPDX-License-Identifier: Apache-2.0
"""What a model knows after a step: metrics, confusion, and the trade-off of rejecting."""

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import torch
from torch import Tensor

from newfound_core.open_world.decision import UNKNOWN, Decision, RejectWhen
from newfound_core.open_world.head import OpenWorldHead
from newfound_core.open_world.inputs import Inputs, chunks
from newfound_core.open_world.memory import Sample
from newfound_core.open_world.metrics import evaluate
from newfound_core.open_world.model import OpenWorldModel

RULES: tuple[RejectWhen, ...] = get_args(RejectWhen)
_POINTS = 51  # of a trade-off curve


@dataclass(frozen=True)
class Queries:
    """Features of test samples and their true classes, UNKNOWN where not learned."""

    features: Tensor  # [N, D]
    truth: Tensor  # [N]


@torch.no_grad()
def features_of(model: OpenWorldModel, samples: Sequence[Sample], inputs: Inputs) -> Tensor:
    """Embeddings [N, D] of samples as they are."""
    device = model.head.rejection_threshold.device
    model.eval()
    parts = [model(inputs.batch(part).to(device)) for part in chunks(samples, 200)]
    return torch.cat(parts) if parts else torch.zeros(0, model.head.dimension, device=device)


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
    """How often each class (row, the last one unknown) was decided to be which (column)."""
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
