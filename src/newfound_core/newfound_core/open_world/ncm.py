# SPDX-License-Identifier: Apache-2.0
"""Nearest class mean with a limit per class, on features that are never trained.

The honest baseline: on L2-normalised features of a pretrained network it is hard to beat.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from torch import Tensor

from newfound_core.open_world.distances import scaled_distances, squared_distances
from newfound_core.open_world.head import OpenWorldHead
from newfound_core.open_world.head_config import HeadConfig
from newfound_core.open_world.limits import exact_limits, percentile_limits
from newfound_core.open_world.losses import global_clustering_loss

NcmLimits = Literal["balanced", "percentile"]


@dataclass(frozen=True, kw_only=True)
class NcmConfig(HeadConfig):
    """Where the limits come from."""

    # "balanced": the limits of B-DOC, which weigh own samples lost against others let in;
    # "percentile": so many per cent of the own samples lie within.
    limits: NcmLimits = "balanced"
    percentile: float = 75.0
    # True: the first step trains the network, which then stays as it is. Without pretrained
    # weights there would be no features at all.
    train_first_step: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_of("limits", get_args(NcmLimits))
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

    def fit_limits(self, features: Tensor, labels: Tensor) -> None:
        """Set each class's limit."""
        distances = self.distances(features)
        if self.config.limits == "balanced":
            limit = exact_limits(distances, labels)
        else:
            limit = percentile_limits(distances, labels, self.config.percentile)
        self.limit = limit.to(self.limit.dtype)


def class_mean_loss(head: OpenWorldHead, features: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of the softmax over distances to the means, in units of the deviation."""
    features, labels, means, _ = head.training_view(features, labels)
    variance = features.detach().var(dim=0, unbiased=False).mean()
    squares = squared_distances(features, means)
    return global_clustering_loss(scaled_distances(squares, variance, "norm"), labels)
