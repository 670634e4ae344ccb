# SPDX-License-Identifier: Apache-2.0
"""Ridge regression and probabilistic LDA from sums over views, and how far to trust them.

Two closed-form answers to "which class":

- the ratio of densities l_c(x) of `newfound_core.plda`, which knows how sure a mean of few views
  is (T. Hayes, C. Kanan, "Lifelong Machine Learning with Deep Streaming Linear Discriminant
  Analysis", CVPRW 2020, arXiv:1909.01520; J. Ren et al., arXiv:2106.09022);
- ridge regression onto the classes (M. McDonnell et al., "RanPAC", NeurIPS 2023,
  arXiv:2307.02251), every one of the K classes counting alike, with W the covariance of views
  around their class's mean, m_k the means and m their mean:

    r_c(x) = 1 / K + (m_c - m)' (K W + sum_k (m_k - m)(m_k - m)' + lambda I)^-1 (x - m)

The evidence of a class is l_c(x) + g r_c(x); g gives the regression half the spread of l_c. The
calibration (`newfound_core.calibration`) is that under which classes that were left out, with all
that they added to the sums, look most like unknown ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from newfound_core.calibration import Calibration, Trial, fit_calibration
from newfound_core.plda import (
    Background,
    ClassDensities,
    ClassStatistics,
    class_densities,
    log_ratios,
)


@dataclass(frozen=True)
class Discriminants:
    """Both answers of some classes, prepared for use; everything in the directions R."""

    background: Background
    densities: ClassDensities
    weights: Tensor  # [R, C] of the regression
    constant: Tensor  # [C]

    def evidence(self, views: Tensor, ridge_weight: float) -> Tensor:
        """l_c(x) + g r_c(x) for views [N, R], [N, C]."""
        likely = log_ratios(self.background, self.densities, views).evidence
        return likely + ridge_weight * self.regression(views)

    def regression(self, views: Tensor) -> Tensor:
        """r_c(x), [N, C]."""
        return views @ self.weights + self.constant


@dataclass(frozen=True)
class Shrinkage:
    """How far estimates are drawn towards what is simple."""

    within: float  # of W, 0 to 1
    between: float  # of B, 0 to 1
    ridge: float  # lambda, as a share of the mean diagonal


def discriminants(statistics: ClassStatistics, known: int, shrinkage: Shrinkage) -> Discriminants:
    """Of the first `known` classes; the others count as things that are none of them."""
    background = statistics.background(shrinkage.within, shrinkage.between)
    means, count = statistics.means, statistics.count
    classes, centre = len(means), means.mean(0)
    freedom = max(int(count.sum()) - classes, 1)
    spread = means - centre
    gram = classes / freedom * statistics.scatter + spread.T @ spread
    level = (gram.trace() / len(gram)).clamp_min(1e-12)
    gram.diagonal().add_(shrinkage.ridge * level)
    weights = torch.linalg.solve(gram, spread[:known].T)
    constant = 1 / classes - centre @ weights
    densities = class_densities(background, means[:known], count[:known])
    return Discriminants(background, densities, weights, constant)


def class_rows(views: Tensor) -> Tensor:
    """Rows [T, R] whose squares are the scatter of a class's views, [n, V, R] with variants.

    Variants add to how views differ, not to how many there are: n - 1 degrees of freedom.
    """
    spread = (views - views.flatten(0, 1).mean(0)).flatten(0, 1)
    share = (len(views) - 1) / max(len(spread) - 1, 1)
    return spread * share**0.5


def shortened(rows: Tensor, most: int) -> Tensor:
    """At most so many rows: the strongest directions, scaled to the same sum of squares."""
    if len(rows) <= most:
        return rows
    _, size, directions = torch.linalg.svd(rows, full_matrices=False)
    scale = (size.square().sum() / size[:most].square().sum().clamp_min(1e-30)).sqrt()
    return scale * size[:most, None] * directions[:most]


# Calibration on classes that were left out.

# Spread of g r_c over that of l_c. Chosen by the likelihood of the few classes left out it was
# worse, docs/notes/open_world_settings.md.
_RIDGE_SHARE = 0.5
_VIEWS = (1, 3, 8, 20)  # that classes are learned from
_PARTS = 6  # of the classes: the others must be nearly as many as they will be in use
_CLASSES = 16  # fewer say little about classes left out
_SPARE = 3  # views of each class kept for testing, at least


@dataclass(frozen=True)
class TwoTrial:
    """Both answers for samples that were not learned from."""

    likely: Tensor  # [N, C], l_c
    regression: Tensor  # [N, C], r_c
    truth: Tensor  # [N], class index; C for an unknown object
    facts: Tensor  # [C, 1]

    def combined(self, ridge_weight: float) -> Trial:
        """The trial of l_c + g r_c."""
        return Trial(self.likely + ridge_weight * self.regression, self.truth, self.facts)

    def unit(self) -> float:
        """Spread of the best l_c over that of the best r_c."""
        best = [part.max(1).values.std() for part in (self.likely, self.regression)]
        return float(best[0] / best[1].clamp_min(1e-12))


def trial_of(found: Discriminants, views: Tensor, truth: Tensor, count: Tensor) -> TwoTrial:
    """Views [N, R] against classes learned from so many views [C]."""
    likely = log_ratios(found.background, found.densities, views).evidence
    return TwoTrial(likely, found.regression(views), truth, class_facts(count))


def class_facts(count: Tensor) -> Tensor:
    """What the calibration knows of classes besides evidence: the logarithm of views, [C, 1]."""
    return count.double().clamp_min(1).log()[:, None]


def calibrated(
    trials: Sequence[TwoTrial], weights: tuple[float, ...] | None = None
) -> tuple[float, Calibration] | None:
    """g, and the calibration under which trials are least surprising; None if they say nothing.

    With `weights`, those of the facts are kept: trials whose classes all have as many views
    cannot tell them.
    """
    trials = [trial for trial in trials if trial.combined(0.0).says_something()]
    if not trials:
        return None
    ridge_weight = _RIDGE_SHARE * sum(trial.unit() for trial in trials) / len(trials)
    found = fit_calibration([trial.combined(ridge_weight) for trial in trials], weights)
    return None if found is None else (ridge_weight, found)


def cross_fitted_trials(views: Tensor, labels: Tensor, shrinkage: Shrinkage) -> list[TwoTrial]:
    """Each sixth of the classes once as new ones, once as unknown ones, beside the others.

    Views are [N, V, R]: the plain one, from which means are learned, first, then variants; tests
    are with any of these. None with fewer than sixteen classes.
    """
    generator = torch.Generator().manual_seed(0)
    groups = []
    for number in labels.unique().tolist():
        own = views[labels == number]
        if len(own) > 2 * _SPARE:
            groups.append(own[torch.randperm(len(own), generator=generator).to(own.device)])
    order = torch.randperm(len(groups), generator=generator).tolist()
    if len(groups) < _CLASSES:
        return []
    parts = [[groups[i] for i in order[start::_PARTS]] for start in range(_PARTS)]
    trials = []
    for first in range(_PARTS):
        new, unknown, *old = parts[first:] + parts[:first]
        for count in _VIEWS:
            others = [own for part in old for own in part]
            trials.append(_with_few_views(new, unknown, others, count, shrinkage))
    return trials


def _with_few_views(
    new: list[Tensor], unknown: list[Tensor], old: list[Tensor], count: int, shrinkage: Shrinkage
) -> TwoTrial:
    """New classes of so many views beside unknown ones; the old have no name."""
    learned = [own[: min(count, len(own) - _SPARE)] for own in new]
    tested = [own[len(used) :] for own, used in zip(new, learned, strict=True)] + unknown
    found = discriminants(_statistics(learned + old), len(learned), shrinkage)
    number = torch.tensor([own.shape[0] * own.shape[1] for own in tested])
    truth = torch.arange(len(tested)).repeat_interleave(number).clamp_max(len(learned))
    views = torch.cat([own.flatten(0, 1) for own in tested])
    sizes = torch.tensor([len(own) for own in learned], device=views.device)
    return trial_of(found, views, truth.to(views.device), sizes)


def _statistics(groups: list[Tensor]) -> ClassStatistics:
    rows = torch.cat([class_rows(own) for own in groups])
    count = torch.tensor([len(own) for own in groups], device=rows.device)
    return ClassStatistics(rows.T @ rows, torch.stack([g[:, 0].mean(0) for g in groups]), count)
