# SPDX-License-Identifier: Apache-2.0
"""The head of `discriminants`: classes without training, learned and forgotten exactly.

Learning a class adds its sums, forgetting it subtracts them: the other classes are as if it had
never been there. Of a class the checkpoint has its mean, the number of its views, and at most
`rows_per_class` rows of R float32 whose squares are its scatter. Classes without a name
(`others`), from which a blank model was made, take part in everything but the answers.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from newfound_core.open_world.discriminants import (
    Discriminants,
    Shrinkage,
    TwoTrial,
    calibrated,
    class_facts,
    class_rows,
    cross_fitted_trials,
    discriminants,
    shortened,
    trial_of,
)
from newfound_core.open_world.head import UNKNOWN, Decision, HeadConfig, all_unknown
from newfound_core.open_world.means import Batch, finite_rows
from newfound_core.open_world.ncm import ClassMeanHead
from newfound_core.plda import ClassStatistics, log_ratios, principal_directions

_FEWEST = 3  # held-out samples of a class that counts
_CALIBRATION_SAMPLES = 2000  # at most: each is compared with every class
_MANY = 20  # classes, of which one more or less does not change the calibration
_FOLDS = 4
_REJECTED = (0.1, 0.25)  # share of held-out known samples, at least and at most
_SAMPLES = 10  # held out: fewer do not say what a tenth of them is


@dataclass(frozen=True, kw_only=True)
class RidgeLdaConfig(HeadConfig):
    """Sizes and shrinkage."""

    directions: int = 384  # of the features, at most; fixed when the first classes are learned
    rows_per_class: int = 32  # directions in which views of one class are known to differ
    within_shrinkage: float = 0.4
    between_shrinkage: float = 0.6
    ridge: float = 0.3  # lambda, as a share of the mean diagonal
    # True: calibrated for classes learned from a few views beside others, as a blank start is
    # used; False: for the known classes as they are.
    few_views: bool = False
    train_first_step: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least("directions", 1)
        self._at_least("rows_per_class", 1)
        self._within("within_shrinkage", 0, 1)
        self._within("between_shrinkage", 0, 1)
        self._at_least("ridge", 1e-6)


class RidgeLda(ClassMeanHead):
    """A class against a new object, by its evidence; unknown if the latter is as probable.

    The only head that can start, and be left, with no class at all.
    """

    name = "ridge_lda"
    config_type: ClassVar[type[HeadConfig]] = RidgeLdaConfig
    config: RidgeLdaConfig  # type: ignore[assignment]
    has_background = True
    origin: Tensor  # [D]
    basis: Tensor  # [D, R]; columns of zeros where the data had fewer directions
    scatter: Tensor  # [R, R], of all classes, those without a name included
    deviations: Tensor  # [T, R]: rows whose squares are the scatter of the named classes
    owner: Tensor  # [T], index of the class of a row
    other_means: Tensor  # [B, R], of classes without a name
    other_count: Tensor  # [B]
    ridge_weight: Tensor  # g
    calibrated_on: Tensor  # number of classes that the calibration comes from

    def __init__(self, dimension: int, config: HeadConfig | None = None) -> None:
        super().__init__(dimension, config)
        size, double = min(self.config.directions, dimension), torch.float64
        self.register_buffer("origin", torch.zeros(dimension, dtype=double))
        self.register_buffer("basis", torch.zeros(dimension, size, dtype=double))
        self.register_buffer("scatter", torch.zeros(size, size, dtype=double))
        self.register_buffer("deviations", torch.zeros(0, size))
        self.register_buffer("owner", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("other_means", torch.zeros(0, size, dtype=double))
        self.register_buffer("other_count", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("ridge_weight", torch.zeros((), dtype=double))
        self.register_buffer("calibrated_on", torch.zeros((), dtype=torch.int64))
        self._prepared: tuple[_Versions, Discriminants] | None = None
        self._projected: tuple[Tensor, Tensor, Tensor] | None = None  # basis, means, result

    # Classes.

    def forget(self, label: str) -> int:
        """Remove a class, and what it added to the sums; return the index it had."""
        index = super().forget(label)
        self._subtract(self.owner == index)
        self.owner = self.owner - (self.owner > index).long()
        return index

    def forget_names(self) -> None:
        """Turn all classes into others: what is known of things in general stays."""
        seen = self.means.seen
        self.other_means = torch.cat([self.other_means, self._projected_means()[seen]])
        self.other_count = torch.cat([self.other_count, self.means.count[seen]])
        self.deviations, self.owner = self.deviations[:0], self.owner[:0]
        for label in list(self.labels):
            super().forget(label)

    def _subtract(self, rows: Tensor) -> None:
        if not rows.any():
            return
        gone = self.deviations[rows].double()
        self.scatter = self.scatter - gone.T @ gone
        self.deviations, self.owner = self.deviations[~rows], self.owner[~rows]

    # A step of learning.

    def fit_background(self, features: Tensor, labels: Tensor) -> None:
        """Begin anew: directions from these features [N, V, D], and a calibration."""
        self.origin, basis = principal_directions(features.flatten(0, 1), self.basis.shape[1])
        self.basis = torch.zeros_like(self.basis)
        self.basis[:, : basis.shape[1]] = basis
        self.scatter = torch.zeros_like(self.scatter)
        self.deviations, self.owner = self.deviations[:0], self.owner[:0]
        self.other_means, self.other_count = self.other_means[:0], self.other_count[:0]
        rows = features.flatten(1).isfinite().all(1)
        self._calibrate(
            cross_fitted_trials(self.project(features[rows]), labels[rows], self._shrinkage),
            len(labels.unique()),
        )

    def refit(self, batches: Iterable[Batch], *, features_changed: bool) -> None:
        """Add views, [N, D] or [N, V, D] with variants, the plain one first, to their classes."""
        batches = [(f if f.ndim == 3 else f[:, None], labels) for f, labels in batches]
        features = torch.cat([features for features, _ in batches])
        labels = torch.cat([labels for _, labels in batches])
        if not self.basis.any():
            self.fit_background(features, labels)
        elif features_changed:
            self._subtract(torch.ones_like(self.owner, dtype=torch.bool))
        count, means = self.means.count.clone(), self._projected_means()
        super().refit([(features[:, 0], labels)], features_changed=features_changed)
        rows = features.flatten(1).isfinite().all(1)
        features, labels = features[rows], labels[rows]
        present = labels.unique()
        order = labels.argsort(stable=True)
        sizes = torch.bincount(labels)[present].tolist()
        rows_of = {
            index: self._rows(
                index, views, 0 if features_changed else int(count[index]), means[index]
            )
            for index, views in zip(
                present.tolist(), self.project(features[order]).split(sizes), strict=True
            )
        }
        self._subtract(torch.isin(self.owner, present))
        added = torch.cat([self.deviations[:0], *rows_of.values()])
        owners = [self.owner.new_full((len(own),), index) for index, own in rows_of.items()]
        self.deviations = torch.cat([self.deviations, added])
        self.owner = torch.cat([self.owner, *owners])
        self.scatter = self.scatter + added.double().T @ added.double()

    def _rows(self, index: int, views: Tensor, before: int, mean: Tensor) -> Tensor:
        """Rows of a class with further views [n, V, R], which had `before` around `mean`."""
        rows, number = class_rows(views), len(views)
        if before:
            apart = math.sqrt(before * number / (before + number)) * (mean - views[:, 0].mean(0))
            kept = self.deviations[self.owner == index].double()
            rows = torch.cat([kept, rows, apart[None]])
        return shortened(rows, self.config.rows_per_class).to(self.deviations.dtype)

    def fit_added_thresholds(self, features: Tensor, labels: Tensor, before: int) -> None:
        """Calibrate anew if the number of classes has changed much since that was last done."""
        classes, calibrated = _usable_classes(labels), int(self.calibrated_on)
        if classes < _MANY or abs(classes - calibrated) * _MANY >= calibrated:
            self.fit_thresholds(features, labels)
        else:
            self._show_thresholds()

    def fit_thresholds(self, features: Tensor, labels: Tensor) -> None:
        """Calibrate, if these samples tell more than what the calibration is from."""
        classes = _usable_classes(labels)
        enough = not self.config.few_views or classes > int(self.calibrated_on)
        if self.calibration is None or enough:
            some = slice(None, None, -(-len(labels) // _CALIBRATION_SAMPLES) or None)
            features, labels = features[some], labels[some]
            self._calibrate(self._left_out_trials(features, labels), classes)
            self._bound_rejection(features, labels)
        self._show_thresholds()

    def _bound_rejection(self, features: Tensor, labels: Tensor) -> None:
        """Move the bias so far that a sensible share of held-out known samples is rejected.

        What a few classes left out tell is uncertain: with four of them the rule alone accepts
        nearly everything in one order of the classes, and rejects half of the known in another.
        """
        if self.calibration is None or len(labels) < _SAMPLES:
            return
        offset = self.calibration.offset(self.facts())
        odds = self.calibration.log_odds(
            self.evidence(features), offset, int(self.means.seen.sum())
        )
        band = odds.max(1).values.quantile(odds.new_tensor(_REJECTED))
        moved = self.calibration.bias - min(max(0.0, float(band[0])), float(band[1]))
        self.calibration = replace(self.calibration, bias=moved)

    def fit_calibration(self, features: Tensor, labels: Tensor) -> None:
        """Keep the calibration that came with the thresholds, if there were classes enough."""
        if self.calibration is None:
            super().fit_calibration(features, labels)

    def _calibrate(self, trials: list[TwoTrial], classes: int) -> None:
        """Weigh the regression, and choose the calibration that fits trials best."""
        weights = self.calibration.weights if self.calibration else None
        found = calibrated(trials, weights)
        if found is not None:
            self.ridge_weight = torch.full_like(self.ridge_weight, found[0])
            self.calibration = found[1]
            self.calibrated_on = torch.full_like(self.calibrated_on, classes)

    def _left_out_trials(self, features: Tensor, labels: Tensor) -> list[TwoTrial]:
        """Each fold of the classes taken away once, with all that it added to the sums."""
        seen = self.means.seen.nonzero()[:, 0]
        folds = min(_FOLDS, len(seen))
        if folds < 3:
            return []
        views, means = self.project(features), self._projected_means()
        trials = []
        for fold in range(folds):
            out, kept = seen[fold::folds], seen[~torch.isin(seen, seen[fold::folds])]
            gone = self.deviations[torch.isin(self.owner, out)].double()
            statistics = ClassStatistics(
                self.scatter - gone.T @ gone,
                torch.cat([means[kept], self.other_means]),
                torch.cat([self.means.count[kept], self.other_count]),
            )
            found = discriminants(statistics, len(kept), self._shrinkage)
            truth = torch.full_like(labels, len(kept))
            for position, index in enumerate(kept.tolist()):
                truth[labels == index] = position
            trials.append(trial_of(found, views, truth, self.means.count[kept]))
        return trials

    def _show_thresholds(self) -> None:
        """Set the distance at which a typical new object would be taken for each class."""
        if not self.means.seen.any():
            return
        found = self._discriminants()
        ratios = log_ratios(found.background, found.densities, found.background.centre[None])
        # Squares of a new object have the expectation 1 in each direction.
        typical = ratios.new_object.new_full((len(self.means),), self._size)
        everything = torch.arange(len(self.means), device=typical.device)
        squares = replace(ratios, new_object=typical).squares_at(
            self._least_evidence(), everything
        )
        self.rejection_threshold = self._distance(squares).to(self.rejection_threshold.dtype)

    # Use.

    def facts(self) -> Tensor:
        """Return the logarithm of the number of views, [C, 1]."""
        return class_facts(self.means.count)

    def evidence(self, features: Tensor) -> Tensor:
        """Return l_c + g r_c, [N, C]."""
        found = self._discriminants().evidence(self.project(features), float(self.ridge_weight))
        return found.masked_fill(~self.means.seen, -torch.inf)

    @torch.no_grad()
    def distances(self, features: Tensor) -> Tensor:
        """Return the root of the mean square deviation over all directions, [N, C]."""
        found = self._discriminants()
        views = self.project(self._checked(features))
        squares = log_ratios(found.background, found.densities, views).squares
        return self._distance(squares).masked_fill(~self.means.seen, torch.inf)

    @torch.no_grad()
    def decide(self, features: Tensor) -> Decision:
        """Name each feature [N, D], or call it unknown."""
        features = self._checked(features)
        if not self.means.seen.any():
            return all_unknown(features, self.rejection_threshold.dtype)
        valid = finite_rows(features)
        views, found = self.project(features.nan_to_num(0, 0, 0)), self._discriminants()
        ratios = log_ratios(found.background, found.densities, views)
        regression = float(self.ridge_weight) * found.regression(views)
        evidence = (ratios.evidence + regression).masked_fill(~self.means.seen, -torch.inf)
        least = self._least_evidence()
        # The class whose evidence is farthest above what it needs: the most probable one.
        nearest = (evidence - least).max(1).indices
        best = _pick(evidence, nearest)
        label = torch.where(valid & (best >= least[nearest]), nearest, UNKNOWN)
        squares = _pick(ratios.squares, nearest)
        limit = ratios.squares_at(least[nearest] - _pick(regression, nearest), nearest)
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

    def project(self, features: Tensor) -> Tensor:
        """Features [..., D] in the directions of the basis, [..., R], in double precision."""
        return (features.double() - self.origin) @ self.basis

    def _projected_means(self) -> Tensor:
        """Of all classes; computed anew for those that changed."""
        means = self.means.value
        known = self._projected
        if known is None or known[0] is not self.basis or len(means) < len(known[1]):
            found = self.project(means)
        else:
            old = len(known[1])
            found = torch.cat([known[2], known[2].new_zeros(len(means) - old, known[2].shape[1])])
            changed = torch.ones(len(means), dtype=torch.bool, device=means.device)
            changed[:old] = (means[:old] != known[1]).any(1)
            found[changed] = self.project(means[changed])
        self._projected = self.basis, means.clone(), found
        return found

    def _least_evidence(self) -> Tensor:
        """Evidence at which each class is as likely as a new object, [C]."""
        if self.calibration is None:
            return torch.zeros_like(self.means.count, dtype=torch.float64)
        offset = self.calibration.offset(self.facts())
        return (math.log(max(1, int(self.means.seen.sum()))) - offset) / self.calibration.slope

    def _discriminants(self) -> Discriminants:
        """Of all classes; computed anew when a tensor changed."""
        tensors = (self.basis, self.scatter, self.means.value, self.means.count, self.other_means)
        made_from = [(tensor, tensor._version) for tensor in tensors]
        if self._prepared is None or not _same(self._prepared[0], made_from):
            means = self._projected_means()
            seen = self.means.seen
            middle = torch.cat([means[seen], self.other_means]).mean(0)
            statistics = ClassStatistics(
                self.scatter,
                torch.cat([torch.where(seen[:, None], means, middle), self.other_means]),
                torch.cat([self.means.count, self.other_count]),
            )
            found = discriminants(statistics, len(self.means), self._shrinkage)
            self._prepared = made_from, found
        return self._prepared[1]

    def _distance(self, squares: Tensor) -> Tensor:
        return (squares.clamp_min(0) / self._size).sqrt()

    @property
    def _shrinkage(self) -> Shrinkage:
        config = self.config
        return Shrinkage(config.within_shrinkage, config.between_shrinkage, config.ridge)

    @property
    def _size(self) -> int:
        return max(1, int(self.basis.any(0).sum()))

    # State.

    def options(self) -> dict[str, Any]:
        """Return everything but the tensors, and how many rows and others these have."""
        sizes = {"rows": len(self.owner), "others": len(self.other_count)}
        return {**super().options(), "sizes": sizes}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Make a head with the right shapes, ready for `load_tensors`."""
        head = super().from_options(options)
        sizes = options["sizes"]
        for name in ("deviations", "owner"):
            _resize(head, name, sizes["rows"])
        for name in ("other_means", "other_count"):
            _resize(head, name, sizes["others"])
        return head


def _usable_classes(labels: Tensor) -> int:
    return int((torch.bincount(labels, minlength=1) >= _FEWEST).sum())


def _resize(head: RidgeLda, name: str, rows: int) -> None:
    tensor = getattr(head, name)
    setattr(head, name, tensor.new_zeros(rows, *tensor.shape[1:]))


_Versions = list[tuple[Tensor, int]]


def _same(one: _Versions, other: _Versions) -> bool:
    return all(a is b and v == w for (a, v), (b, w) in zip(one, other, strict=True))


def _pick(values: Tensor, column: Tensor) -> Tensor:
    return values.gather(1, column[:, None])[:, 0]
