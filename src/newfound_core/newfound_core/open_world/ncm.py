# SPDX-License-Identifier: Apache-2.0
"""Nearest class mean and nearest non-outlier: the baselines that never train, or once.

NCM: T. Mensink, J. Verbeek, F. Perronnin, G. Csurka, "Distance-Based Image Classification:
Generalizing to New Classes at Near-Zero Cost", TPAMI 2013, doi:10.1109/TPAMI.2013.83; thesis
3.5.2, equation 3.17. Here with a rejection threshold per class: on L2-normalised features of a
pretrained network it is hard to beat.

    g(x) = argmin_c d(f(x), mu_c)                                                           (3.17)

NNO: A. Bendale, T. Boult, "Towards Open World Recognition", CVPR 2015, arXiv:1412.5687; thesis
3.5.2, equations 3.18 and 3.19. Features and the one threshold tau are those of the first step.

    s_c(x) = Z (1 - d(f(x), mu_c) / tau);   unknown if s_c(x) <= 0 for all c          (3.18, 3.19)
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from newfound_core.open_world.head import HeadConfig, OpenWorldHead
from newfound_core.open_world.losses import (
    exact_thresholds,
    global_clustering_loss,
    leave_one_class_out_threshold,
    percentile_threshold,
    percentile_thresholds,
)
from newfound_core.open_world.means import scaled_distances, squared_distances

NcmThresholds = Literal["balanced", "percentile"]


@dataclass(frozen=True, kw_only=True)
class NcmConfig(HeadConfig):
    """Options of the thresholds."""

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


class ClassMeanHead(OpenWorldHead):
    """A head whose features train in the first step at most, for a nearest-mean classifier."""

    config: "NcmConfig | NnoConfig"

    @property
    def trains_features(self) -> bool:
        """True in the first step only, if at all: later classes just add a mean."""
        return self.config.train_first_step and self.steps == 0

    def loss(
        self, features: Tensor, labels: Tensor, old_features: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Cross entropy over the class means."""
        return {"total": class_mean_loss(self, features, labels)}


class NearestClassMean(ClassMeanHead):
    """The class of the nearest mean, if that mean is near enough."""

    name = "ncm"
    config_type: ClassVar[type[HeadConfig]] = NcmConfig
    config: NcmConfig

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


NnoThresholds = Literal["percentile", "leave_one_class_out"]


@dataclass(frozen=True, kw_only=True)
class NnoConfig(HeadConfig):
    """Options of the first step and of its one threshold."""

    train_first_step: bool = True  # False: features of a pretrained network as they are
    # tau in the thesis. A high percentile of the training distances rejects nothing.
    thresholds: NnoThresholds = "percentile"
    percentile: float = 50.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_of("thresholds", get_args(NnoThresholds))
        self._within("percentile", 0, 100)


class NearestNonOutlier(ClassMeanHead):
    """Score 1 - distance / threshold, one threshold for all; unknown if none is positive."""

    name = "nno"
    config_type: ClassVar[type[HeadConfig]] = NnoConfig
    config: NnoConfig

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
