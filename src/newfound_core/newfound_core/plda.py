# SPDX-License-Identifier: Apache-2.0
"""Probabilistic linear discriminant analysis: a class from a few views, without training.

S. Ioffe, "Probabilistic Linear Discriminant Analysis", ECCV 2006; S. Prince, J. Elder,
"Probabilistic Linear Discriminant Analysis for Inferences About Identity", ICCV 2007. Objects
have a mean m ~ N(centre, B), their views are x ~ N(m, W). In the directions that make W the
identity and B the diagonal matrix psi, a class with n views of mean u is known to lie at

    m | views ~ N(n psi / (n psi + 1) u,  psi / (n psi + 1))

and the evidence of a class is the ratio of its predictive density to that of a new object:

    e_c(x) = log N(x; n psi / (n psi + 1) u, 1 + psi / (n psi + 1)) - log N(x; 0, 1 + psi)

It is the relative Mahalanobis distance (J. Ren et al., arXiv:2106.09022) with the uncertainty of
a mean of few views. W and B, the background, are estimated once from many classes; afterwards a
class is a mean and a count, so learning one changes no other, and forgetting it leaves no trace.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from newfound_core.calibration import Calibration, Trial, fit_calibration
from newfound_core.errors import DataError

_RATIO = 4.0  # of the variances between and within objects, where data do not say
_SMALLEST = 1e-6  # of psi: directions in which classes do not differ say nothing


@dataclass(frozen=True)
class Background:
    """How views of one object differ, and how objects do."""

    centre: Tensor  # [D]
    projection: Tensor  # [D, R]: views have unit variance in each direction
    between: Tensor  # [R], psi: variance of the objects' means

    def project(self, features: Tensor) -> Tensor:
        """Features [N, D] in these directions, [N, R], in double precision."""
        return (features.double() - self.centre) @ self.projection


def fit_background(
    features: Tensor,
    labels: Tensor,
    directions: int,
    within_shrinkage: float = 0.5,
    between_shrinkage: float = 0.4,
) -> Background:
    """Estimate the background from features [N, D], or [N, V, D] with variants, of many classes.

    Both covariances are drawn towards multiples of the identity, since there are fewer classes,
    and hardly more views, than directions.
    """
    if features.ndim == 3:
        labels = labels.repeat_interleave(features.shape[1])
        features = features.flatten(0, 1)
    rows = features.isfinite().all(1)
    features, labels = features[rows].double(), labels[rows]
    classes, position = labels.unique(return_inverse=True)
    count = torch.bincount(position).double()
    if len(features) < 2:
        raise DataError(f"a background needs at least two views, got {len(features)}")
    centre = features.mean(0)
    _, _, basis = torch.linalg.svd(features - centre, full_matrices=False)
    basis = basis[:directions].T  # [D, R]
    views = (features - centre) @ basis
    means = torch.zeros(len(classes), views.shape[1], dtype=torch.float64, device=views.device)
    means = means.index_add(0, position, views) / count[:, None]
    if len(classes) == len(features):  # single views do not say how those of one object differ
        between = torch.cov(means.T).reshape(views.shape[1], -1)
        within = _shrunk(between / _RATIO, within_shrinkage)
    else:
        spread = views - means[position]
        within = spread.T @ spread / (len(views) - len(classes))
        within = _shrunk(within, within_shrinkage)
        if len(classes) > 1:
            between = torch.cov(means.T).reshape(within.shape) - within / count.mean()
        else:  # one class does not say how others differ
            between = _RATIO * within
    between = _shrunk(between, between_shrinkage)
    lower = torch.linalg.cholesky(within)
    half = torch.linalg.solve_triangular(lower, between, upper=False)
    middle = torch.linalg.solve_triangular(lower, half.T, upper=False)
    psi, vectors = torch.linalg.eigh((middle + middle.T) / 2)
    turned = torch.linalg.solve_triangular(lower.T, vectors, upper=True)
    return Background(centre, basis @ turned, psi.clamp_min(_SMALLEST))


def _shrunk(covariance: Tensor, share: float) -> Tensor:
    size = len(covariance)
    level = (covariance.trace() / size).clamp_min(1e-12)
    identity = torch.eye(size, dtype=covariance.dtype, device=covariance.device)
    return (1 - share) * covariance + share * level * identity


@dataclass(frozen=True)
class ClassDensities:
    """Predictive densities of known classes, in the directions of a background."""

    precision: Tensor  # [C, R]: 1 / variance
    weighted: Tensor  # [C, R]: mean / variance
    square: Tensor  # [C]: sum over directions of mean² / variance
    offset: Tensor  # [C]: half the log variance


def class_densities(background: Background, means: Tensor, count: Tensor) -> ClassDensities:
    """Of classes with so many views [C] and these means [C, D]."""
    psi, number = background.between, count.double()[:, None]
    mean = number * psi / (number * psi + 1) * background.project(means)
    variance = 1 + psi / (number * psi + 1)
    return ClassDensities(
        1 / variance,
        mean / variance,
        (mean.square() / variance).sum(1),
        0.5 * variance.log().sum(1),
    )


@dataclass(frozen=True)
class LogRatios:
    """Evidence of classes for samples, and what it is made of."""

    squares: Tensor  # [N, C]: sum over directions of (x - mean)² / variance
    new_object: Tensor  # [N]: the same for a view of a new object
    offset: Tensor  # [C]: half the log variance of a class beyond that of a new object

    @property
    def evidence(self) -> Tensor:
        """e_c(x), [N, C]."""
        return (self.new_object[:, None] - self.squares) / 2 - self.offset

    def squares_at(self, evidence: Tensor, columns: Tensor) -> Tensor:
        """The squares [N] at which samples would have this evidence [N] of these classes [N]."""
        return self.new_object - 2 * (evidence + self.offset[columns])


def log_ratios(background: Background, classes: ClassDensities, features: Tensor) -> LogRatios:
    """Compare features [N, D] with classes and with a new object."""
    variance, views = 1 + background.between, background.project(features)
    squares = (
        views.square() @ classes.precision.T - 2 * views @ classes.weighted.T + classes.square
    )
    new_object = (views.square() / variance).sum(1)
    offset = classes.offset - 0.5 * variance.log().sum()
    return LogRatios(squares.clamp_min(0), new_object, offset)


_VIEWS = (1, 3, 8, 20)  # that classes are learned from for the calibration
_SPARE = 3  # views of each class kept for testing, at least


def class_facts(count: Tensor, in_background: Tensor) -> Tensor:
    """What the calibration knows of classes besides evidence, [C, 2].

    The logarithm of the number of views, and whether the background was estimated from it: such
    a class has less evidence, since its views look the less like those of a new object.
    """
    return torch.stack([count.double().clamp_min(1).log(), in_background.double()], 1)


def cross_fitted_calibration(
    features: Tensor, labels: Tensor, fit: Callable[[Tensor, Tensor], Background], seed: int = 0
) -> Calibration | None:
    """Calibrate on classes that the background was not estimated from, each half by the other.

    Features are [N, V, D]: the plain views, from which classes are learned, first, then variants
    of them; tests are with any of these. Half of the classes apart are learned from a few views,
    the others are unknown objects, with the classes of the background known or not. None with
    fewer than eight classes.
    """
    rows = features.flatten(1).isfinite().all(1)
    features, labels = features[rows], labels[rows]
    generator = torch.Generator().manual_seed(seed)
    views = []
    for number in labels.unique().tolist():
        own = features[labels == number]
        if len(own) > 2 * _SPARE:
            views.append(own[torch.randperm(len(own), generator=generator).to(own.device)])
    order = torch.randperm(len(views), generator=generator).tolist()
    quarters = [[views[i] for i in order[start::4]] for start in range(4)]
    if min(len(quarter) for quarter in quarters) < 2:
        return None
    trials = []
    for first in range(4):
        new, unknown, *old = quarters[first:] + quarters[:first]
        trials += _trials(new, unknown, old[0] + old[1], fit)
    return fit_calibration(trials)


def _trials(
    new: list[Tensor],
    unknown: list[Tensor],
    old: list[Tensor],
    fit: Callable[[Tensor, Tensor], Background],
) -> list[Trial]:
    """New classes beside unknown ones, with a background of old ones, known or not."""
    kept = [own[:-_SPARE] for own in old]
    numbers = torch.arange(len(old)).repeat_interleave(torch.tensor([len(own) for own in kept]))
    background = fit(torch.cat(kept), numbers.to(kept[0].device))
    trials = []
    for views in _VIEWS:
        learned = [own[: min(views, len(own) - _SPARE)] for own in new]
        tested = [own[len(used) :] for own, used in zip(new, learned, strict=True)]
        trials.append(_trial(background, learned, [*tested, *unknown], 0))
        tested = [own[-_SPARE:] for own in [*old, *new]]
        trials.append(_trial(background, kept + learned, [*tested, *unknown], len(old)))
    return trials


def _trial(
    background: Background, learned: list[Tensor], tested: list[Tensor], in_background: int
) -> Trial:
    """Views of the learned classes, then of unknown ones, against the learned classes.

    The first `in_background` of these are those of the background.
    """
    device = background.centre.device
    count = torch.tensor([len(own) for own in learned], device=device)
    means = torch.stack([own[:, 0].mean(0) for own in learned])
    densities = class_densities(background, means, count)
    ratios = log_ratios(background, densities, torch.cat([own.flatten(0, 1) for own in tested]))
    number = torch.tensor([own.shape[0] * own.shape[1] for own in tested], device=device)
    truth = torch.arange(len(tested), device=device).repeat_interleave(number)
    facts = class_facts(count, torch.arange(len(learned), device=device) < in_background)
    return Trial(ratios.evidence, truth.clamp_max(len(learned)), facts)
