# SPDX-License-Identifier: Apache-2.0
"""Nearest class mean with a threshold per class, on features that are never trained.

The honest baseline: on L2-normalised features of a pretrained network it is hard to beat.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from torch import Tensor

from newfound_core.open_world.distances import scaled_distances, squared_distances
from newfound_core.open_world.head import OpenWorldHead
from newfound_core.open_world.head_config import HeadConfig
from newfound_core.open_world.losses import global_clustering_loss
from newfound_core.open_world.thresholds import exact_thresholds, percentile_thresholds

NcmThresholds = Literal["balanced", "percentile"]


@dataclass(frozen=True, kw_only=True)
class NcmConfig(HeadConfig):
    """Where the thresholds come from."""

    # "balanced": the thresholds of B-DOC, which weigh own samples lost against others let in;
    # "percentile": so many per cent of the own samples lie within.
    thresholds: NcmThresholds = "balanced"
    percentile: float = 75.0
    # True: the first step trains the network, which then stays as it is. Without pretrained
    # weights there would be no features at all.
    train_first_step: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_of("thresholds", get_args(NcmThresholds))
        self._within("percentile", 0, 100)


class NearestClassMean(OpenWorldHead):
    """The class of the nearest mean, if that mean is near enough."""

    name = "ncm"
    config_type: ClassVar[type[HeadConfig]] = NcmConfig
    config: NcmConfig

    @property
    def trains_features(self) -> bool:
        """Never, or in the first step only: the features stay those of the pretrained network."""
        return self.config.train_first_step and self.steps == 0

    def loss(
        self, features: Tensor, labels: Tensor, old_features: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Cross entropy over the class means."""
        return {"total": class_mean_loss(self, features, labels)}

    def fit_thresholds(self, features: Tensor, labels: Tensor) -> None:
        """Set each class's threshold."""
        distances = self.distances(features)
        if self.config.thresholds == "balanced":
            threshold = exact_thresholds(distances, labels)
        else:
            threshold = percentile_thresholds(distances, labels, self.config.percentile)
        self.rejection_threshold = threshold.to(self.rejection_threshold.dtype)


def class_mean_loss(head: OpenWorldHead, features: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of the softmax over distances to the means, in units of the deviation."""
    features, labels, means, _ = head.training_view(features, labels)
    variance = features.detach().var(dim=0, unbiased=False).mean()
    squares = squared_distances(features, means)
    return global_clustering_loss(scaled_distances(squares, variance, "norm"), labels)
