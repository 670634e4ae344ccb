# SPDX-License-Identifier: Apache-2.0
"""Nearest non-outlier: features and one limit from the first step, then frozen."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from newfound_core.open_world.head import OpenWorldHead
from newfound_core.open_world.head_config import HeadConfig
from newfound_core.open_world.limits import leave_one_class_out_limit, percentile_limit
from newfound_core.open_world.ncm import class_mean_loss

NnoLimit = Literal["percentile", "leave_one_class_out"]


@dataclass(frozen=True, kw_only=True)
class NnoConfig(HeadConfig):
    """What the first step trains and how it sets the one limit."""

    train_first_step: bool = True  # False: features of a pretrained network as they are
    # tau in the thesis. A high percentile of the training distances rejects nothing.
    limit: NnoLimit = "percentile"
    percentile: float = 50.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_of("limit", get_args(NnoLimit))
        self._within("percentile", 0, 100)


class NearestNonOutlier(OpenWorldHead):
    """Score 1 - distance / limit, the same limit for all classes; unknown if none is positive."""

    name = "nno"
    config_type: ClassVar[type[HeadConfig]] = NnoConfig
    config: NnoConfig

    @property
    def trains_features(self) -> bool:
        """In the first step only; later classes just add a mean."""
        return self.config.train_first_step and self.steps == 0

    def loss(
        self, features: Tensor, labels: Tensor, old_features: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Cross entropy over the class means: metric learning for a nearest-mean classifier."""
        return {"total": class_mean_loss(self, features, labels)}

    def fit_limits(self, features: Tensor, labels: Tensor) -> None:
        """Set the limit in the first step; later steps keep it."""
        if self.steps > 0:
            return
        distances = self.distances(features)
        if self.config.limit == "percentile":
            limit = percentile_limit(distances, labels, self.config.percentile)
        else:
            limit = leave_one_class_out_limit(distances, labels)
        self.limit = torch.full_like(self.limit, limit)
