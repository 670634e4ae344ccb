# SPDX-License-Identifier: Apache-2.0
"""The one contract of all open-world methods: class means, distance thresholds, a decision."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal, Self, get_args

import torch
from torch import Tensor, nn

from newfound_core.calibration import Calibration, Trial, fit_calibration, probabilities
from newfound_core.errors import CheckpointError, ConfigError, DataError
from newfound_core.open_world.means import (
    Batch,
    ClassMeans,
    FeatureSums,
    MeanSearch,
    check_batch,
    finite_rows,
    root,
)

UNKNOWN = -1

# "all_beyond": unknown if it lies beyond the threshold of every class (as printed in the thesis);
# "nearest_beyond": unknown if it lies beyond the threshold of its nearest class.
RejectWhen = Literal["all_beyond", "nearest_beyond"]
# "all": the nearest class, accepted or not (as printed); "accepted": the nearest of the classes
# whose threshold holds. The two differ under "all_beyond" only.
ChooseFrom = Literal["all", "accepted"]


@dataclass(frozen=True)
class Decision:
    """Decision on each of N samples."""

    label: Tensor  # [N] int64, class index or UNKNOWN
    nearest: Tensor  # [N] int64, nearest class whatever the thresholds; UNKNOWN if there is none
    score: Tensor  # [N], how well it fits its class; higher is more known, the scale is the head's
    distance: Tensor  # [N], to the class decided for, or to the nearest if unknown
    rejection_threshold: Tensor  # [N], of the same class
    confidence: Tensor  # [N], estimated probability that `label` is right, 0 to 1

    def __len__(self) -> int:
        return len(self.label)

    @property
    def known(self) -> Tensor:
        """Mask of the samples that were given a class, [N]."""
        return self.label != UNKNOWN


def choose(
    distances: Tensor, thresholds: Tensor, reject_when: RejectWhen, choose_from: ChooseFrom
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the column decided for, the nearest column and whether the sample is known.

    `distances` is [N, C]; `thresholds` has the same shape or is [C]. A distance that is NaN is
    beyond every threshold. A sample exactly on a threshold is known.
    """
    distances = distances.nan_to_num(nan=torch.inf, posinf=torch.inf)
    nearest = distances.min(dim=1).indices
    accepted = (distances <= thresholds) & distances.isfinite()
    if reject_when == "nearest_beyond":
        return nearest, nearest, accepted.gather(1, nearest[:, None])[:, 0]
    known = accepted.any(dim=1)
    if choose_from == "all":
        return nearest, nearest, known
    inside = distances.masked_fill(~accepted, torch.inf).min(dim=1).indices
    return torch.where(known, inside, nearest), nearest, known


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """Options of every head's decision."""

    reject_when: RejectWhen = "nearest_beyond"
    choose_from: ChooseFrom = "all"
    # Exact distances only to so many classes, those nearest in a small projection; 0 compares
    # with every class. See `search`.
    shortlist: int = 8

    def __post_init__(self) -> None:
        self._one_of("reject_when", get_args(RejectWhen))
        self._one_of("choose_from", get_args(ChooseFrom))
        self._at_least("shortlist", 0)

    def _one_of(self, option: str, choices: Sequence[str]) -> None:
        if getattr(self, option) not in choices:
            expected = ", ".join(choices)
            raise ConfigError(f"{option} is {getattr(self, option)!r}, expected one of {expected}")

    def _at_least(self, option: str, smallest: float) -> None:
        value = getattr(self, option)
        if not smallest <= value < float("inf"):
            raise ConfigError(f"{option} must be a number of at least {smallest}, got {value}")

    def _within(self, option: str, low: float, high: float) -> None:
        value = getattr(self, option)
        if not low <= value <= high:
            raise ConfigError(f"{option} must be between {low} and {high}, got {value}")


class OpenWorldHead(nn.Module, ABC):
    """Known classes as means in feature space, each with a threshold of how far its samples lie.

    A step of learning calls, in this order: `extend`, `begin_step`, then per epoch
    `begin_epoch` and per batch `loss` and `observe`, at last `fit_background`, `refit`,
    `fit_thresholds`, `fit_calibration` and `end_step`. A later step that trains nothing calls
    `extend`, `refit`, `fit_added_thresholds`, `end_step`.
    """

    name: ClassVar[str]
    config_type: ClassVar[type[HeadConfig]]
    rejection_threshold: Tensor  # [C], distance beyond which a class rejects; inf if not fitted
    # Whether it learns about objects in general (`fit_background`); only then can it learn a first
    # class, or be left without one.
    has_background: ClassVar[bool] = False

    def __init__(self, dimension: int, config: HeadConfig | None = None) -> None:
        super().__init__()
        self.config = config if config is not None else self.config_type()
        if not isinstance(self.config, self.config_type):
            raise ConfigError(
                f"{self.name} takes a {self.config_type.__name__}, "
                f"got a {type(self.config).__name__}"
            )
        self.labels: list[str] = []
        self.steps = 0
        self.calibration: Calibration | None = None  # None: scores were never calibrated
        self.means = ClassMeans(dimension)
        self.register_buffer("rejection_threshold", torch.zeros(0))
        self._search: MeanSearch | None = None

    # What a method is made of.

    @property
    @abstractmethod
    def trains_features(self) -> bool:
        """Whether the coming step trains the network in front of the head."""

    @property
    def distillation_weight(self) -> float:
        """Weight of the distance to the features of the previous step's network."""
        return 0.0

    @abstractmethod
    def loss(
        self, features: Tensor, labels: Tensor, old_features: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the loss of a batch as "total", and its terms by name."""

    def observe(self, features: Tensor, labels: Tensor) -> None:
        """Follow a training batch; features are those from before the optimiser's step."""
        self.means.update(features, labels)

    @abstractmethod
    def fit_thresholds(self, features: Tensor, labels: Tensor) -> None:
        """Set the thresholds; the features should be of samples that were not trained on."""

    def fit_added_thresholds(self, features: Tensor, labels: Tensor, before: int) -> None:
        """Set the thresholds after classes were added to features that did not change.

        The first `before` classes were there already.
        """
        self.fit_thresholds(features, labels)

    def fit_calibration(self, features: Tensor, labels: Tensor) -> None:
        """Fit the probabilities of decisions on samples that were not trained on."""
        trial = Trial.leaving_classes_out(self.evidence(features), labels, self.facts())
        self.calibration = fit_calibration([trial])

    def facts(self) -> Tensor:
        """Return what the probability of a class depends on besides evidence, [C, F]."""
        return self.means.value.new_zeros(len(self.means), 0)

    def evidence(self, features: Tensor) -> Tensor:
        """Return how much speaks for every class, [N, C]; -inf for one without samples."""
        return self._evidence(self.distances(features), self.rejection_threshold)

    def _evidence(self, distances: Tensor, thresholds: Tensor) -> Tensor:
        scores = self.score(distances, thresholds.expand_as(distances))
        return scores.masked_fill(~distances.isfinite(), -torch.inf)

    def distances_from_squares(self, squares: Tensor) -> Tensor:
        """Turn squared Euclidean distances into the method's own."""
        return root(squares)

    def score(self, distance: Tensor, rejection_threshold: Tensor) -> Tensor:
        """Fit of a sample: 1 on the mean, 0 on the threshold, negative beyond."""
        tiny = torch.finfo(rejection_threshold.dtype).tiny
        return 1 - distance / rejection_threshold.clamp_min(tiny)

    # Classes.

    @property
    def dimension(self) -> int:
        """Length of a feature."""
        return self.means.dimension

    def extend(self, labels: Sequence[str]) -> None:
        """Add classes; each counts as known once it has a mean."""
        for label in labels:
            if not isinstance(label, str) or not label.strip():
                raise DataError(f"a class label must be a non-empty text, got {label!r}")
            if label in self.labels:
                raise DataError(f"class {label!r} is already known; labels must be unique")
            self.labels.append(label)
            self.means.extend(1)
            known = self.rejection_threshold
            default = known.median() if len(known) else known.new_tensor(torch.inf)
            self.rejection_threshold = torch.cat([known, default[None]])

    def forget(self, label: str) -> int:
        """Remove a class and return the index it had; later classes move down by one."""
        if label not in self.labels:
            known = ", ".join(self.labels) or "none"
            raise DataError(f"cannot forget {label!r}: the known classes are {known}")
        index = self.labels.index(label)
        del self.labels[index]
        self.means.forget(index)
        kept = torch.arange(len(self.rejection_threshold)) != index
        self.rejection_threshold = self.rejection_threshold[
            kept.to(self.rejection_threshold.device)
        ]
        return index

    # A step of learning.

    def begin_step(self) -> None:
        """Prepare for a step that trains or is the first, after `extend`."""

    def fit_background(self, features: Tensor, labels: Tensor) -> None:
        """Learn about objects in general, where a method does; before `refit`.

        Called in the first step, and when the network was trained, with features [N, V, D] of
        V variants of every sample, the plain one first.
        """

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        """Prepare for an epoch, counted from 0."""
        self.means.restart_counts()

    def refit(self, batches: Iterable[Batch], *, features_changed: bool) -> None:
        """Compute means exactly from all samples at hand, by the network as it now is.

        Where the features did not change, what earlier samples said still holds: the new ones
        are added to the means by their number, instead of replacing them.
        """
        sums = FeatureSums(len(self.means), self.dimension, self.means.value.device)
        self.refit_from(sums.add_all(batches), features_changed=features_changed)

    def refit_from(self, sums: FeatureSums, *, features_changed: bool) -> None:
        """Take over what `refit` summed up."""
        if features_changed:
            self.means.restart_counts()
        self.means.merge(sums)

    def end_step(self) -> None:
        """Count the step as learned."""
        self.steps += 1

    def training_view(
        self, features: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return usable features, their labels, the means labels point into, the rows used.

        Samples with NaN or infinite features are left out, as are classes without a mean. A
        class met for the first time starts from its mean in this batch.
        """
        check_batch(features, labels, classes=len(self.means), dimension=self.dimension)
        rows = finite_rows(features)
        features, labels = features[rows], labels[rows]
        self.means.start_unseen(features, labels)
        seen = self.means.seen
        position = seen.cumsum(0) - 1
        return features, position[labels], self.means.value[seen].to(features.dtype), rows

    # Use.

    @torch.no_grad()
    def distances(self, features: Tensor) -> Tensor:
        """Return the distance of every feature [N, D] to every class, as [N, C]."""
        features = self._checked(features)
        distances = self.distances_from_squares(self.search().squares(features))
        return distances.masked_fill(~self.means.seen, torch.inf)

    @torch.no_grad()
    def decide(self, features: Tensor) -> Decision:
        """Name each feature [N, D], or call it unknown."""
        features = self._checked(features)
        if not self.means.seen.any():
            return all_unknown(features, self.rejection_threshold.dtype)
        squares, classes = self.search().candidates(features, self.config.shortlist)
        distances = self.distances_from_squares(squares)
        thresholds, seen = (
            self.rejection_threshold[classes],
            self.means.seen[classes],
        )  # [N, K] or [C]
        distances = distances.masked_fill(~seen, torch.inf)
        column, nearest, known = choose(
            distances, thresholds, self.config.reject_when, self.config.choose_from
        )
        classes, thresholds = classes.expand_as(distances), thresholds.expand_as(distances)
        evidence = self._evidence(distances, thresholds)
        decided = torch.where(known, column, UNKNOWN)
        confidence = self._confidence(evidence, classes, decided, column)
        label, nearest = _pick(classes, column), _pick(classes, nearest)
        distance, threshold = _pick(distances, column), _pick(thresholds, column)
        return Decision(
            label=torch.where(known, label, UNKNOWN),
            nearest=torch.where(distance.isfinite(), nearest, UNKNOWN),
            score=self.score(distance, threshold).nan_to_num(nan=-torch.inf, neginf=-torch.inf),
            distance=distance.nan_to_num(nan=torch.inf, posinf=torch.inf),
            rejection_threshold=threshold,
            confidence=confidence,
        )

    def _confidence(
        self, evidence: Tensor, classes: Tensor, label: Tensor, nearest: Tensor
    ) -> Tensor:
        """Probability of each decision, [N], from the evidence [N, K] of `classes`.

        `label` and `nearest` are columns of the evidence, `label` also UNKNOWN. Without a
        calibration the score of a head, cut off at 0 and 1, has to do.
        """
        kind = self.rejection_threshold.dtype
        if self.calibration is None:
            score = _pick(evidence, nearest).nan_to_num(0, 1, 0).clamp(0, 1)
            return torch.where(label == UNKNOWN, 1 - score, score).to(kind)
        offset = self.calibration.offset(self.facts())[classes]
        odds = self.calibration.log_odds(evidence, offset, int(self.means.seen.sum()))
        column = torch.where(label == UNKNOWN, odds.shape[1], label)
        return _pick(probabilities(odds), column).to(kind)

    def search(self) -> MeanSearch:
        """Return the prepared search over the current means, made anew when they changed."""
        if self._search is None or not self._search.serves(self.means.value):
            self._search = MeanSearch(self.means.value)
        return self._search

    def _checked(self, features: Tensor) -> Tensor:
        if features.ndim != 2 or features.shape[1] != self.dimension:
            raise DataError(
                f"features have shape {tuple(features.shape)}, expected [N, {self.dimension}]"
            )
        return features.to(self.means.value.dtype)

    # State.

    def options(self) -> dict[str, Any]:
        """Return everything but the tensors (`state_dict`), fit for JSON."""
        return {
            "method": self.name,
            "dimension": self.dimension,
            "labels": list(self.labels),
            "steps": self.steps,
            "config": asdict(self.config),
            "calibration": asdict(self.calibration) if self.calibration else None,
        }

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Make a head with the right shapes, ready for `load_tensors`."""
        known = {field.name for field in fields(cls.config_type)}
        unknown = sorted(set(options["config"]) - known)
        if unknown:
            raise CheckpointError(f"{cls.name} has no option named {', '.join(unknown)}")
        head = cls(options["dimension"], cls.config_type(**options["config"]))
        head.extend(options["labels"])
        head.steps = options["steps"]
        if options.get("calibration") is not None:
            head.calibration = Calibration(**options["calibration"])
        return head

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over saved tensors: all of them, no others, of the right shapes and types."""
        own = self.state_dict()
        for key in sorted(set(own) ^ set(tensors)):
            found = "missing from" if key in own else "not expected in"
            raise CheckpointError(f"tensor {key!r} is {found} the state of a {self.name} head")
        for key, tensor in tensors.items():
            if (tensor.shape, tensor.dtype) != (own[key].shape, own[key].dtype):
                raise CheckpointError(
                    f"tensor {key!r} has shape {tuple(tensor.shape)} and type {tensor.dtype}, "
                    f"but {len(self.labels)} classes of dimension {self.dimension} need "
                    f"{tuple(own[key].shape)} and {own[key].dtype}"
                )
            if tensor.isnan().any():
                raise CheckpointError(f"tensor {key!r} of the {self.name} head holds NaN")
        self.load_state_dict(dict(tensors))


def _pick(values: Tensor, column: Tensor) -> Tensor:
    return values.gather(1, column[:, None])[:, 0]


def all_unknown(features: Tensor, kind: torch.dtype) -> Decision:
    """Decisions of a head that knows no class: unknown, for certain."""
    unknown = torch.full(features.shape[:1], UNKNOWN, device=features.device)
    infinite = torch.full(features.shape[:1], torch.inf, dtype=kind, device=features.device)
    certain = torch.ones_like(infinite)
    return Decision(unknown, unknown, -infinite, infinite, infinite, certain)
