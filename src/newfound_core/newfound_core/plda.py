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
a mean of few views. W and B, the background, are estimated from sums over classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

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


@dataclass(frozen=True)
class ClassStatistics:
    """What the background is estimated from: sums over the views of some classes."""

    scatter: Tensor  # [R, R]: squares of the deviations of views from their class's mean, summed
    means: Tensor  # [C, R]
    count: Tensor  # [C], views of each class

    def background(self, within_shrinkage: float, between_shrinkage: float) -> Background:
        """Estimate W and B, drawn towards multiples of the identity.

        There are fewer classes, and hardly more views, than directions.
        """
        within, between = self._covariances(within_shrinkage)
        between = _shrunk(between, between_shrinkage)
        lower = torch.linalg.cholesky(within)
        half = torch.linalg.solve_triangular(lower, between, upper=False)
        middle = torch.linalg.solve_triangular(lower, half.T, upper=False)
        psi, vectors = torch.linalg.eigh((middle + middle.T) / 2)
        turned = torch.linalg.solve_triangular(lower.T, vectors, upper=True)
        # Classes count alike: a robot's own ones move the centre into its world.
        return Background(self.means.mean(0), turned, psi.clamp_min(_SMALLEST))

    def _covariances(self, shrinkage: float) -> tuple[Tensor, Tensor]:
        classes, directions = self.means.shape
        freedom = int(self.count.sum()) - classes
        if freedom < 1:  # single views do not say how those of one object differ
            between = torch.cov(self.means.T).reshape(directions, directions)
            return _shrunk(between / _RATIO, shrinkage), between
        within = _shrunk(self.scatter / freedom, shrinkage)
        if classes < 2:  # one class does not say how others differ
            return within, _RATIO * within
        between = torch.cov(self.means.T).reshape(directions, directions)
        return within, between - within / self.count.double().mean()


def principal_directions(features: Tensor, directions: int) -> tuple[Tensor, Tensor]:
    """Mean [D] and basis [D, R] of the directions in which features [N, D] vary most."""
    rows = features.isfinite().all(1)
    features = features[rows].double()
    if len(features) < 2:
        raise DataError(f"a background needs at least two views, got {len(features)}")
    centre = features.mean(0)
    _, _, basis = torch.linalg.svd(features - centre, full_matrices=False)
    return centre, basis[:directions].T


def class_statistics(views: Tensor, labels: Tensor) -> ClassStatistics:
    """Of views [N, R] of classes; those without a view are left out."""
    classes, position = labels.unique(return_inverse=True)
    count = torch.bincount(position, minlength=len(classes))
    means = views.new_zeros(len(classes), views.shape[1]).index_add(0, position, views)
    means = means / count[:, None]
    spread = views - means[position]
    return ClassStatistics(spread.T @ spread, means, count)


def fit_background(
    features: Tensor,
    labels: Tensor,
    directions: int,
    within_shrinkage: float = 0.5,
    between_shrinkage: float = 0.4,
) -> Background:
    """Estimate the background from features [N, D] of many classes."""
    rows = features.isfinite().all(1)
    features, labels = features[rows].double(), labels[rows]
    centre, basis = principal_directions(features, directions)
    statistics = class_statistics((features - centre) @ basis, labels)
    found = statistics.background(within_shrinkage, between_shrinkage)
    return Background(centre + basis @ found.centre, basis @ found.projection, found.between)


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
