# SPDX-License-Identifier: Apache-2.0
"""Probabilities from evidence: how likely is each known class, and that it is none of them.

A head gives evidence e_c(x) for every known class c, higher for a better fit. With a prior of one
half for "unknown" and the other half shared by the C classes, a slope a, and a bias that may
depend on facts f_c of a class (how many views it was learned from),

    z_c(x)         = a e_c(x) + b + v · f_c - log C
    P(c | x)       = exp(z_c(x)) / (1 + sum_k exp(z_k(x)))
    P(unknown | x) = 1 / (1 + sum_k exp(z_k(x)))

which is Platt's scaling (J. Platt, "Probabilistic Outputs for Support Vector Machines", 1999)
with an answer for the unknown. a, b and v maximise the likelihood of samples that were not learned
from, of known and of unknown classes; both count alike.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from newfound_core.errors import ConfigError

_FEWEST_SAMPLES = 10  # not learned from; fewer say nothing about probabilities
_STEPS = 80


@dataclass(frozen=True)
class Calibration:
    """From evidence to log odds against "unknown"."""

    slope: float  # a
    bias: float  # b
    weights: tuple[float, ...] = ()  # v, one for each fact of a class

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", tuple(self.weights))
        rest = all(math.isfinite(value) for value in (self.bias, *self.weights))
        if not (0 < self.slope < math.inf and rest):
            raise ConfigError(f"slope must be positive, the other numbers finite, got {self}")

    def log_odds(self, evidence: Tensor, offset: Tensor, classes: int) -> Tensor:
        """z_c(x) for evidence [N, K] of some or all classes; `offset` is theirs."""
        odds = self.slope * evidence.double().clamp(-1e6, 1e6) + offset - math.log(max(classes, 1))
        return odds.masked_fill(~(evidence > -torch.inf), -torch.inf)  # NaN is no evidence

    def offset(self, facts: Tensor) -> Tensor:
        """b + v · f_c of classes with facts [C, F], [C]."""
        weights = torch.tensor(self.weights, dtype=torch.float64, device=facts.device)
        return self.bias + facts.double() @ weights


def probabilities(log_odds: Tensor) -> Tensor:
    """Of each column of log odds [N, K] and, in the last column, of "unknown": [N, K + 1]."""
    return _with_unknown(log_odds).softmax(1)


def _with_unknown(log_odds: Tensor) -> Tensor:
    return torch.cat([log_odds, log_odds.new_zeros(len(log_odds), 1)], 1)


@dataclass(frozen=True)
class Trial:
    """Evidence for samples that were not learned from."""

    evidence: Tensor  # [N, C]; -inf where a class is not known
    truth: Tensor  # [N], class index; C for an unknown object
    facts: Tensor  # [C, F]

    @classmethod
    def leaving_classes_out(cls, evidence: Tensor, labels: Tensor, facts: Tensor) -> "Trial":
        """Each sample twice: as one of its class, and with its class taken away, as unknown."""
        usable = evidence.gather(1, labels[:, None])[:, 0].isfinite()
        evidence, labels = evidence[usable].double(), labels[usable]
        without = evidence.scatter(1, labels[:, None], -torch.inf)
        unknown = torch.full_like(labels, evidence.shape[1])
        return cls(torch.cat([evidence, without]), torch.cat([labels, unknown]), facts)

    def says_something(self) -> bool:
        """Whether there are classes to confuse, and samples of known and unknown ones."""
        known = self.truth < self.evidence.shape[1]
        several = int(self.evidence.isfinite().any(0).sum()) > 1
        return several and bool(known.any()) and bool((~known).any())

    def surprise(self, slope: Tensor, bias: Tensor, weights: Tensor) -> Tensor:
        """Mean negative log likelihood; known and unknown samples count alike."""
        finite = self.evidence.isfinite()
        evidence = torch.where(finite, self.evidence, 0).double().clamp(-1e6, 1e6)
        classes = finite.sum(1, keepdim=True).clamp_min(1)
        odds = slope * evidence + bias + self.facts.double() @ weights - classes.log()
        odds = odds.masked_fill(~finite, -torch.inf)
        likely = _with_unknown(odds).log_softmax(1).gather(1, self.truth[:, None])[:, 0]
        known = self.truth < self.evidence.shape[1]
        return -(likely[known].mean() + likely[~known].mean()) / 2


def fit_calibration(
    trials: Sequence[Trial], weights: tuple[float, ...] | None = None
) -> Calibration | None:
    """Fit a calibration on trials, which count alike; None where they say nothing.

    With `weights`, those of the facts are as given.
    """
    trials = [trial for trial in trials if trial.says_something()]
    if sum(len(trial.truth) for trial in trials) < _FEWEST_SAMPLES:
        return None
    # In units of its spread, so that one start and one optimiser serve every head.
    spread = torch.cat([t.evidence[t.evidence.isfinite()].double() for t in trials]).std()
    unit = float(spread.clamp_min(1e-12))
    fixed = None if weights is None else spread.new_tensor(weights)
    fitted = trials[0].facts.shape[1] if fixed is None else 0
    # The logarithm of the slope, the bias, the weights.
    values = spread.new_zeros(2 + fitted).requires_grad_()
    optimiser = torch.optim.LBFGS([values], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        of_facts = values[2:] if fixed is None else fixed
        parts = [t.surprise(values[0].exp() / unit, values[1], of_facts) for t in trials]
        # A weak pull towards the start keeps separable samples from an infinite slope.
        total = torch.stack(parts).mean() + 1e-3 * values.square().sum()
        total.backward()
        return total

    with torch.enable_grad():
        optimiser.step(loss)
    log_slope, bias, *found = values.tolist()
    slope, found = math.exp(log_slope) / unit, found if weights is None else list(weights)
    finite = all(math.isfinite(value) for value in (slope, bias, *found))
    return Calibration(slope, bias, tuple(found)) if finite else None


def calibration_error(confidence: Tensor, right: Tensor, bins: int = 15) -> float | None:
    """Expected calibration error: mean gap of confidence and accuracy over bins of equal width.

    C. Guo, G. Pleiss, Y. Sun, K. Weinberger, "On Calibration of Modern Neural Networks",
    ICML 2017, arXiv:1706.04599.
    """
    if not len(confidence):
        return None
    confidence, right = confidence.double(), right.double()
    number = (confidence * bins).long().clamp(0, bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64).index_add(0, number, confidence - right)
    return float(gaps.abs().sum() / len(confidence))
