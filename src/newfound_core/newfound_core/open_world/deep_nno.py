# SPDX-License-Identifier: Apache-2.0
"""DeepNNO: features trained end to end, one score threshold followed during training.

M. Mancini, H. Karaoguz, E. Ricci, P. Jensfelt, B. Caputo, "Knowledge is Never Enough: Towards Web
Aided Deep Open World Recognition", ICRA 2019, arXiv:1906.01258; thesis 3.5.3, equations 3.20 to
3.29. With class means mu_c (3.21, in `means`) and old features f_old,

    s_c(x)  = exp(-||f(x) - mu_c|| / 2)                                                     (3.20)
    unknown if s_c(x) <= Delta for all c                                                    (3.22)
    Delta   <- (t Delta + mean over classes of the weighted mean score) / (t + 1)     (3.23, 3.24)
    w       = w+ if the own score is above Delta, else w-                                   (3.25)
    L       = -log s_own - sum_{c != own} log(1 - s_c) + lambda ||f - f_old||        (3.27 to 3.29)
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from newfound_core.open_world.head import HeadConfig, OpenWorldHead
from newfound_core.open_world.losses import distillation_loss, one_against_rest_loss
from newfound_core.open_world.means import root, squared_distances

ThresholdSource = Literal["training", "held_out"]

# The threshold starts at zero, where every sample is accepted: only after many averages do the
# weights of rejected samples count as much as they should.
_PASSES = 200


@dataclass(frozen=True, kw_only=True)
class DeepNnoConfig(HeadConfig):
    """Weights of the loss and of the threshold's average."""

    distillation_weight: float = 0.2  # lambda in the thesis; 1 over-regularises
    accepted_weight: float = 1.0  # w+
    rejected_weight: float = 3.0  # w-
    # Share of a step's epochs that the threshold leaves out: scores of an untrained network
    # would keep its average far too low.
    threshold_warmup: float = 0.5
    # "training": the average over training batches (as printed); "held_out": the same average
    # over the samples the thresholds are fitted on, by the finished network.
    threshold_from: ThresholdSource = "training"
    score_margin: float = 1e-4  # 1 - score is not taken below this in the loss

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_of("threshold_from", get_args(ThresholdSource))
        for option in ("distillation_weight", "accepted_weight", "rejected_weight"):
            self._at_least(option, 0)
        self._within("threshold_warmup", 0, 0.99)
        self._within("score_margin", 1e-12, 0.5)

    @classmethod
    def as_printed(cls) -> "DeepNnoConfig":
        """Return the values of the thesis."""
        return cls(distillation_weight=1.0, threshold_warmup=0.0, reject_when="all_beyond")


class DeepNno(OpenWorldHead):
    """Score s_c = exp(-||f - mean_c|| / 2); unknown if no score is above the threshold."""

    name = "deepnno"
    config_type: ClassVar[type[HeadConfig]] = DeepNnoConfig
    config: DeepNnoConfig
    threshold: Tensor  # Delta in the thesis
    threshold_batches: Tensor  # how many batches are in its average

    def __init__(self, dimension: int, config: HeadConfig | None = None) -> None:
        super().__init__(dimension, config)
        self.register_buffer("threshold", torch.zeros((), dtype=torch.float64))
        self.register_buffer("threshold_batches", torch.zeros((), dtype=torch.int64))
        self._warming_up = False

    @property
    def trains_features(self) -> bool:
        """True: features are trained in every step."""
        return True

    @property
    def distillation_weight(self) -> float:
        """Lambda of the thesis."""
        return self.config.distillation_weight

    def begin_step(self) -> None:
        """Start the threshold's average anew."""
        self._restart_threshold()

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        """Start the means anew; the threshold's average begins after the warm-up."""
        super().begin_epoch(epoch, epochs)
        self._warming_up = epoch < math.floor(self.config.threshold_warmup * epochs)

    def loss(
        self, features: Tensor, labels: Tensor, old_features: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Binary cross entropy of every class's score, and distillation."""
        features, labels, means, rows = self.training_view(features, labels)
        distances = root(squared_distances(features, means))
        terms = {
            "scores": one_against_rest_loss(distances, labels, margin=self.config.score_margin)
        }
        total = terms["scores"]
        if old_features is not None:
            terms["distillation"] = distillation_loss(features, old_features[rows])
            total = total + self.config.distillation_weight * terms["distillation"]
        return {"total": total, **terms}

    def observe(self, features: Tensor, labels: Tensor) -> None:
        """Follow the threshold by the scores of the batch, then the means."""
        if not self._warming_up and self.config.threshold_from == "training":
            self._average_threshold(features, labels)
        super().observe(features, labels)

    def fit_thresholds(self, features: Tensor, labels: Tensor) -> None:
        """Average the threshold here if training was not to do it, or did not take place."""
        if self.config.threshold_from == "held_out" or self.threshold_batches == 0:
            self._restart_threshold()
            for _ in range(_PASSES):
                self._average_threshold(features, labels)
        self._set_rejection_threshold()

    def fit_added_thresholds(self, features: Tensor, labels: Tensor, before: int) -> None:
        """Keep the threshold: the few near samples of an added class would raise it for all."""
        self._set_rejection_threshold()

    def score(self, distance: Tensor, rejection_threshold: Tensor) -> Tensor:
        """s = exp(-distance / 2), known above the threshold."""
        return torch.exp(-distance / 2)

    @torch.no_grad()
    def _average_threshold(self, features: Tensor, labels: Tensor) -> None:
        """Threshold <- (t threshold + mean over the batch's classes of their score) / (t + 1)."""
        distances = self.distances(features.detach()).double()
        own = distances.gather(1, labels[:, None])[:, 0]
        valid = own.isfinite()
        if not valid.any():
            return
        scores = torch.exp(-own[valid] / 2)
        mean = _mean_over_classes(scores, labels[valid], self._weights(scores))
        batches = self.threshold_batches
        self.threshold = (batches * self.threshold + mean) / (batches + 1)
        self.threshold_batches = batches + 1
        self._set_rejection_threshold()

    def _weights(self, scores: Tensor) -> Tensor:
        accepted, rejected = self.config.accepted_weight, self.config.rejected_weight
        return torch.where(scores > self.threshold, accepted, rejected).to(scores.dtype)

    def _restart_threshold(self) -> None:
        self.threshold = torch.zeros_like(self.threshold)
        self.threshold_batches = torch.zeros_like(self.threshold_batches)
        self._set_rejection_threshold()

    def _set_rejection_threshold(self) -> None:
        """exp(-rejection_threshold / 2) = threshold; a threshold of zero rejects nothing."""
        self.rejection_threshold = torch.full_like(
            self.rejection_threshold, float(-2 * self.threshold.log())
        )


def _mean_over_classes(scores: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Return the mean, over the classes present, of the weighted mean of their scores."""
    classes, position = labels.unique(return_inverse=True)
    zero = scores.new_zeros(len(classes))
    total = zero.index_add(0, position, weights)
    weighted = zero.index_add(0, position, weights * scores)
    return (weighted / total).mean()
