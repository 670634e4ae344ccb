# SPDX-License-Identifier: Apache-2.0
"""Nearest non-outlier: features and one threshold from the first step, then frozen."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from newfound_core.open_world.head import OpenWorldHead
from newfound_core.open_world.head_config import HeadConfig
from newfound_core.open_world.ncm import class_mean_loss
from newfound_core.open_world.thresholds import leave_one_class_out_threshold, percentile_threshold

NnoThresholds = Literal["percentile", "leave_one_class_out"]


@dataclass(frozen=True, kw_only=True)
class NnoConfig(HeadConfig):
    """What the first step trains and how it sets the one threshold."""

    train_first_step: bool = True  # False: features of a pretrained network as they are
    # tau in the thesis. A high percentile of the training distances rejects nothing.
    thresholds: NnoThresholds = "percentile"
    percentile: float = 50.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_of("thresholds", get_args(NnoThresholds))
        self._within("percentile", 0, 100)


class NearestNonOutlier(OpenWorldHead):
    """Score 1 - distance / threshold, one threshold for all; unknown if none is positive."""

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

    def fit_thresholds(self, features: Tensor, labels: Tensor) -> None:
        """Set the threshold in the first step; later steps keep it."""
        if self.steps > 0:
            return
        distances = self.distances(features)
        if self.config.thresholds == "percentile":
            threshold = percentile_threshold(distances, labels, self.config.percentile)
        else:
            threshold = leave_one_class_out_threshold(distances, labels)
        self.rejection_threshold = torch.full_like(self.rejection_threshold, threshold)
