# SPDX-License-Identifier: Apache-2.0
"""The head of `newfound_core.plda`: classes from a few views, calibrated, without training."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from newfound_core.open_world.head import UNKNOWN, Decision, HeadConfig, all_unknown
from newfound_core.open_world.means import Batch, finite_rows
from newfound_core.open_world.ncm import ClassMeanHead
from newfound_core.plda import (
    Background,
    ClassDensities,
    LogRatios,
    class_densities,
    class_facts,
    cross_fitted_calibration,
    fit_background,
    log_ratios,
)


@dataclass(frozen=True, kw_only=True)
class PldaConfig(HeadConfig):
    """Size of the background model."""

    directions: int = 256  # at most; R above
    within_shrinkage: float = 0.5
    between_shrinkage: float = 0.4
    train_first_step: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least("directions", 1)
        self._within("within_shrinkage", 0, 1)
        self._within("between_shrinkage", 0, 1)


class Plda(ClassMeanHead):
    """A class against a new object, by the ratio of their densities; unknown if the latter wins.

    The only head that can start, and be left, with no class at all.
    """

    name = "plda"
    config_type: ClassVar[type[HeadConfig]] = PldaConfig
    config: PldaConfig  # type: ignore[assignment]
    has_background = True
    centre: Tensor  # [D]
    projection: Tensor  # [D, R]; columns of zeros where the data had fewer directions
    between: Tensor  # [R]
    in_background: Tensor  # [C], whether the background was estimated from a class
    background_classes: Tensor  # how many classes it is from; 0: not fitted

    def __init__(self, dimension: int, config: HeadConfig | None = None) -> None:
        super().__init__(dimension, config)
        directions = min(self.config.directions, dimension)
        self.register_buffer("centre", torch.zeros(dimension, dtype=torch.float64))
        self.register_buffer("projection", torch.zeros(dimension, directions, dtype=torch.float64))
        self.register_buffer("between", torch.zeros(directions, dtype=torch.float64))
        self.register_buffer("in_background", torch.zeros(0, dtype=torch.bool))
        self.register_buffer("background_classes", torch.zeros((), dtype=torch.int64))
        self._densities: tuple[_Versions, ClassDensities] | None = None

    @property
    def background(self) -> Background:
        """The background model in use."""
        return Background(self.centre, self.projection, self.between)

    def extend(self, labels: Sequence[str]) -> None:
        """Add classes; each counts as known once it has a mean."""
        super().extend(labels)
        new = self.in_background.new_zeros(len(self.labels) - len(self.in_background))
        self.in_background = torch.cat([self.in_background, new])

    def forget(self, label: str) -> int:
        """Remove a class and return the index it had; the background stays as it is."""
        index = super().forget(label)
        kept = torch.arange(len(self.in_background), device=self.in_background.device) != index
        self.in_background = self.in_background[kept]
        return index

    def refit(self, batches: Iterable[Batch], *, features_changed: bool) -> None:
        """Update the means; without a background yet, it is estimated from the same samples."""
        batches = list(batches)
        super().refit(batches, features_changed=features_changed)
        if self.background_classes == 0:
            features = torch.cat([features for features, _ in batches])
            labels = torch.cat([labels for _, labels in batches])
            self.fit_background(features[:, None], labels)

    def fit_background(self, features: Tensor, labels: Tensor) -> None:
        """Estimate how views and objects differ, and the probabilities that follow."""
        found = self._fit(features, labels)
        used = len(found.between)
        self.centre = found.centre
        self.projection = torch.zeros_like(self.projection)
        self.projection[:, :used] = found.projection
        self.between = torch.zeros_like(self.between)
        self.between[:used] = found.between
        self.background_classes = torch.full_like(self.background_classes, len(labels.unique()))
        self.in_background = torch.zeros_like(self.in_background)
        self.in_background[labels.unique()] = True
        self.calibration = cross_fitted_calibration(features, labels, self._fit)

    def _fit(self, features: Tensor, labels: Tensor) -> Background:
        config = self.config
        return fit_background(
            features,
            labels,
            len(self.between),
            config.within_shrinkage,
            config.between_shrinkage,
        )

    def fit_calibration(self, features: Tensor, labels: Tensor) -> None:
        """Keep the calibration that came with the background, if it had classes enough."""
        if self.calibration is None:
            super().fit_calibration(features, labels)

    def fit_thresholds(self, features: Tensor, labels: Tensor) -> None:
        """Set the distance at which a typical new object would be taken for each class."""
        classes = torch.arange(len(self.means), device=self.between.device)
        ratios = self._ratios(self.centre[None].to(self.means.value.dtype))
        # Squares of a new object have the expectation 1 in each direction.
        typical = replace(ratios, new_object=self.between.new_full((len(classes),), self._size))
        squares = typical.squares_at(self._least_evidence(), classes)
        self.rejection_threshold = self._distance(squares).to(self.rejection_threshold.dtype)

    def facts(self) -> Tensor:
        """Return the number of views, as a logarithm, and whether it is in the background."""
        return class_facts(self.means.count, self.in_background)

    def evidence(self, features: Tensor) -> Tensor:
        """Return the logarithm of the ratio of densities, [N, C]."""
        return self._unseen_apart(self._ratios(features).evidence, -torch.inf)

    @torch.no_grad()
    def distances(self, features: Tensor) -> Tensor:
        """Return the root of the mean square deviation over all directions, [N, C]."""
        squares = self._ratios(self._checked(features)).squares
        return self._unseen_apart(self._distance(squares), torch.inf)

    @torch.no_grad()
    def decide(self, features: Tensor) -> Decision:
        """Name each feature [N, D], or call it unknown."""
        features = self._checked(features)
        if not self.means.seen.any():
            return all_unknown(features, self.rejection_threshold.dtype)
        valid = finite_rows(features)
        ratios = self._ratios(features.nan_to_num(0, 0, 0))
        evidence = self._unseen_apart(ratios.evidence, -torch.inf)
        least = self._least_evidence()
        # The class whose evidence is farthest above what it needs: the most probable one.
        nearest = (evidence - least).max(1).indices
        best = evidence.gather(1, nearest[:, None])[:, 0]
        label = torch.where(valid & (best >= least[nearest]), nearest, UNKNOWN)
        squares = ratios.squares.gather(1, nearest[:, None])[:, 0]
        limit = ratios.squares_at(least[nearest], nearest)
        confident = evidence.masked_fill(~valid[:, None], -torch.inf)
        everything = torch.arange(len(self.means), device=features.device)
        kind = self.rejection_threshold.dtype
        return Decision(
            label=label,
            nearest=torch.where(valid, nearest, UNKNOWN),
            score=torch.where(valid, best - least[nearest], -torch.inf).to(kind),
            distance=torch.where(valid, self._distance(squares), torch.inf).to(kind),
            rejection_threshold=self._distance(limit).to(kind),
            confidence=self._confidence(confident, everything, label, nearest),
        )

    def _least_evidence(self) -> Tensor:
        """Evidence at which each class is as likely as a new object, [C]."""
        if self.calibration is None:
            return torch.zeros_like(self.means.count, dtype=torch.float64)
        offset = self.calibration.offset(self.facts())
        return (math.log(max(1, int(self.means.seen.sum()))) - offset) / self.calibration.slope

    def _ratios(self, features: Tensor) -> LogRatios:
        """Evidence of every class; its densities are computed anew when a tensor changed."""
        tensors = (self.centre, self.projection, self.between, self.means.value, self.means.count)
        made_from = [(tensor, tensor._version) for tensor in tensors]
        if self._densities is None or not _same(self._densities[0], made_from):
            found = class_densities(self.background, self.means.value, self.means.count)
            self._densities = made_from, found
        return log_ratios(self.background, self._densities[1], features)

    def _distance(self, squares: Tensor) -> Tensor:
        return (squares.clamp_min(0) / self._size).sqrt()

    @property
    def _size(self) -> int:
        return max(1, int((self.between > 0).sum()))

    def _unseen_apart(self, values: Tensor, instead: float) -> Tensor:
        return values.masked_fill(~self.means.seen, instead)


_Versions = list[tuple[Tensor, int]]


def _same(one: _Versions, other: _Versions) -> bool:
    return all(a is b and v == w for (a, v), (b, w) in zip(one, other, strict=True))
