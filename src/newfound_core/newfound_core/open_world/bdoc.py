# SPDX-License-Identifier: Apache-2.0
"""B-DOC: features clustered globally and locally, a learnt rejection threshold per class.

D. Fontanel, F. Cermelli, M. Mancini, S. Rota Bulò, E. Ricci, B. Caputo, "Boosting Deep Open World
Recognition by Clustering", RA-L 2020, arXiv:2004.13849; thesis 3.5.4, equations 3.30 to 3.35. With
d_c(x) = ||f(x) - mu_c||² / sigma², or a form of it,

    l_GC = -log softmax_c(-d_c(x)) of the own class                                   (3.30, 3.31)
    l_LC = -log of the own class's share of exp(-||f(x) - f(x_j)||² / T) in the batch       (3.32)
    L    = l_GC + lambda l_LC + gamma ||f - f_old||                                         (3.33)
    unknown if d_c(x) > Delta_c for all c                                                   (3.34)
    Delta minimises sum_k max(0, m (d_k(x) - Delta_k)), m = +1 for the own class, else -1   (3.35)

(3.30 normalises twice as printed, and 3.35 is printed with m the other way round.)
"""

from dataclasses import dataclass
from typing import ClassVar, get_args

import torch
from torch import Tensor

from newfound_core.open_world.head import HeadConfig, OpenWorldHead
from newfound_core.open_world.losses import (
    distillation_loss,
    exact_thresholds,
    global_clustering_loss,
    local_clustering_loss,
    own_class,
    percentile_threshold,
)
from newfound_core.open_world.means import (
    DistanceForm,
    FeatureSums,
    scaled_distances,
    squared_distances,
)


@dataclass(frozen=True, kw_only=True)
class BdocConfig(HeadConfig):
    """Form of the distance and weights of the loss."""

    # "squared", as printed, did not train: with 512 or more dimensions its softmax saturates.
    distance: DistanceForm = "norm"
    # With its gradient the loss is blind to the features' scale: nothing stops their inflation.
    detach_variance: bool = True
    local_weight: float = 1.0  # lambda in the thesis
    distillation_weight: float = 1.0  # gamma
    # Thresholds from few held-out samples are far off by chance. Each is drawn towards one that
    # all classes share, as if it came from so many further samples; 0 is the thesis.
    shared_threshold_samples: float = 0.0
    shared_threshold_percentile: float = (
        75.0  # of the distances of held-out samples to their means
    )
    # Threshold of a class that is added without training, relative to the median of those before.
    # Views of one thing in one place do not tell how far others lie; docs/results.md has numbers.
    added_threshold_factor: float = 1.1
    # Only samples whose nearest class is their own set the thresholds, as in the later code.
    thresholds_from_correct: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_of("distance", get_args(DistanceForm))
        self._at_least("local_weight", 0)
        self._at_least("distillation_weight", 0)
        self._at_least("shared_threshold_samples", 0)
        self._within("shared_threshold_percentile", 0, 100)
        self._at_least("added_threshold_factor", 0)

    @classmethod
    def as_released(cls) -> "BdocConfig":
        """Return the form of the authors' later code: one deviation, thresholds from the right."""
        return cls(distance="norm", thresholds_from_correct=True)

    @classmethod
    def as_printed(cls) -> "BdocConfig":
        """Return the values of the thesis."""
        return cls(distance="squared", detach_variance=False, reject_when="all_beyond")


class Bdoc(OpenWorldHead):
    """Distance ||f - mean_c||² / variance, or a form of it; unknown beyond its threshold."""

    name = "bdoc"
    config_type: ClassVar[type[HeadConfig]] = BdocConfig
    config: BdocConfig
    variance: Tensor  # sigma² in the thesis: online estimate, averaged over dimensions
    variance_batches: Tensor  # how many batches are in it

    def __init__(self, dimension: int, config: HeadConfig | None = None) -> None:
        super().__init__(dimension, config)
        self.register_buffer("variance", torch.ones((), dtype=torch.float64))
        self.register_buffer("variance_batches", torch.zeros((), dtype=torch.int64))

    @property
    def trains_features(self) -> bool:
        """True: features are trained in every step."""
        return True

    @property
    def distillation_weight(self) -> float:
        """Gamma of the thesis."""
        return self.config.distillation_weight

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        """Start means and variance anew."""
        super().begin_epoch(epoch, epochs)
        self.variance_batches = torch.zeros_like(self.variance_batches)

    def loss(
        self, features: Tensor, labels: Tensor, old_features: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Global and local clustering, and distillation."""
        features, labels, means, rows = self.training_view(features, labels)
        variance = self._batch_variance(features)
        to_means = self._scaled(squared_distances(features, means), variance)
        to_batch = self._scaled(squared_distances(features, features), variance)
        terms = {
            "global": global_clustering_loss(to_means, labels),
            "local": local_clustering_loss(to_batch, labels),
        }
        total = terms["global"] + self.config.local_weight * terms["local"]
        if old_features is not None:
            terms["distillation"] = distillation_loss(features, old_features[rows])
            total = total + self.config.distillation_weight * terms["distillation"]
        return {"total": total, **terms}

    def observe(self, features: Tensor, labels: Tensor) -> None:
        """Follow the means and the variance."""
        super().observe(features, labels)
        features = features.detach()[features.detach().isfinite().all(dim=1)]
        if len(features) > 1:
            now = features.double().var(dim=0, unbiased=False).mean()
            batches = self.variance_batches
            self.variance = (batches * self.variance + now) / (batches + 1)
            self.variance_batches = batches + 1

    def refit_from(self, sums: FeatureSums, *, features_changed: bool) -> None:
        """Compute means and variance exactly.

        The variance only scales all distances alike, so where the features did not change the
        one of the first step serves on.
        """
        super().refit_from(sums, features_changed=features_changed)
        if (features_changed or self.variance_batches == 0) and sums.count.sum() > 1:
            self.variance = torch.full_like(self.variance, sums.variance())
            self.variance_batches = torch.ones_like(self.variance_batches)

    def fit_thresholds(self, features: Tensor, labels: Tensor) -> None:
        """Set each threshold to the minimum of the margin loss, with the features frozen."""
        distances = self.distances(features)
        if self.config.thresholds_from_correct:
            right = distances.argmin(1) == labels
            missed = ~torch.isin(labels, labels[right])  # of such a class all samples count
            distances, labels = distances[right | missed], labels[right | missed]
        thresholds = exact_thresholds(distances, labels)
        if self.config.shared_threshold_samples > 0:
            shared = percentile_threshold(
                distances, labels, self.config.shared_threshold_percentile
            )
            own = own_class(labels, distances.shape[1]).sum(dim=0)
            further = self.config.shared_threshold_samples
            thresholds = (own * thresholds + further * shared) / (own + further)
        self.rejection_threshold = thresholds.to(self.rejection_threshold.dtype)

    def fit_added_thresholds(self, features: Tensor, labels: Tensor, before: int) -> None:
        """Keep the thresholds there are; those of added classes follow from them."""
        old = self.rejection_threshold[:before]
        added = self.config.added_threshold_factor * old.median()
        self.rejection_threshold = torch.cat(
            [old, added.expand(len(self.rejection_threshold) - before)]
        )

    def distances_from_squares(self, squares: Tensor) -> Tensor:
        """Divide by the online estimate of the variance."""
        return self._scaled(squares, self.variance.to(squares.dtype))

    def _scaled(self, squares: Tensor, variance: Tensor) -> Tensor:
        return scaled_distances(squares, variance, self.config.distance, self.dimension)

    def _batch_variance(self, features: Tensor) -> Tensor:
        if len(features) < 2:
            return self.variance.to(features.dtype)
        variance = features.var(dim=0, unbiased=False).mean()
        return variance.detach() if self.config.detach_variance else variance
