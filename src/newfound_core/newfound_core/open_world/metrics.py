# SPDX-License-Identifier: Apache-2.0
"""How well a head names what it knows and rejects what it does not, as shares from 0 to 1."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from newfound_core.calibration import calibration_error
from newfound_core.errors import DataError
from newfound_core.open_world.head import UNKNOWN, Decision


@dataclass(frozen=True)
class OpenWorldMetrics:
    """Results of one step, or averages over steps. None where no sample could say."""

    closed_world_without_rejection: float | None  # knowns whose nearest class is right
    closed_world_with_rejection: float | None  # knowns given the right class
    open_set: float | None  # unknowns rejected
    owr: float | None  # mean of the last two
    owr_harmonic: float | None  # harmonic mean of the same two: OWR-H
    auroc: float | None  # of the score, knowns against unknowns, whatever the thresholds
    correct_knowns_rejected: float | None  # of the knowns whose nearest class is right
    unknowns_rejected: float | None  # the same as open_set, in the rejection table
    rejection_difference: float | None  # unknowns_rejected - correct_knowns_rejected
    calibration_error: (
        float | None
    )  # expected gap of the confidence and the share of right answers


def evaluate(truth: Tensor, decision: Decision) -> OpenWorldMetrics:
    """Compare decisions with the true classes [N], UNKNOWN where the class is none of ours."""
    if truth.shape != decision.label.shape:
        raise DataError(f"{len(truth)} true classes for {len(decision)} decisions")
    known = truth != UNKNOWN
    unrejected_right = (decision.nearest == truth)[known]
    with_rejection = _share((decision.label == truth)[known])
    open_set = _share(~decision.known[~known])
    lost = _share(~decision.known[known][unrejected_right])
    return OpenWorldMetrics(
        closed_world_without_rejection=_share(unrejected_right),
        closed_world_with_rejection=with_rejection,
        open_set=open_set,
        owr=_both(with_rejection, open_set, lambda a, b: (a + b) / 2),
        owr_harmonic=_both(with_rejection, open_set, harmonic_mean),
        auroc=auroc(decision.score[known], decision.score[~known]),
        correct_knowns_rejected=lost,
        unknowns_rejected=open_set,
        rejection_difference=_both(open_set, lost, lambda a, b: a - b),
        calibration_error=calibration_error(decision.confidence, decision.label == truth),
    )


def average(steps: Sequence[OpenWorldMetrics]) -> OpenWorldMetrics:
    """Average each metric over the steps that have it."""
    means = {}
    for field in fields(OpenWorldMetrics):
        values = [v for step in steps if (v := getattr(step, field.name)) is not None]
        means[field.name] = sum(values) / len(values) if values else None
    return OpenWorldMetrics(**means)


def auroc(known: Tensor, unknown: Tensor) -> float | None:
    """Probability that a known scores above an unknown; ties count half."""
    if not len(known) or not len(unknown):
        return None
    order = unknown.double().sort().values
    below = torch.searchsorted(order, known.double().contiguous())
    not_above = torch.searchsorted(order, known.double().contiguous(), right=True)
    return float((below + not_above).double().mean() / (2 * len(unknown)))


def harmonic_mean(a: float, b: float) -> float:
    """Return 2ab / (a + b), and 0 where both are."""
    return 2 * a * b / (a + b) if a + b else 0.0


def _share(true: Tensor) -> float | None:
    return float(true.double().mean()) if len(true) else None


def _both(
    a: float | None, b: float | None, combine: Callable[[float, float], float]
) -> float | None:
    return None if a is None or b is None else combine(a, b)
