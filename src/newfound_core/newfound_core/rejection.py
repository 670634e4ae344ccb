# SPDX-License-Identifier: Apache-2.0
"""A classifier that can answer "unknown", with probabilities that mean something.

From the features f and logits l of an image comes evidence that it shows a known class at all,

    max_logit    max_c l_c            (D. Hendrycks et al., arXiv:1911.11132)
    energy       log sum_c exp(l_c)   (W. Liu et al., arXiv:2010.03759)
    distance     max_c e_c(f)         the ratio of densities of `newfound_core.plda`
    combined     a sum of the last two, each with a weight

and with s(x) = slope * evidence + bias and a temperature T (C. Guo et al., arXiv:1706.04599)

    P(known | x) = 1 / (1 + exp(-s(x))),   P(c | x) = P(known | x) softmax_c(l / T)

The module returns logarithms of these as further logits: a softmax over them, which every back
end and ONDA apply as to any classifier, gives the probabilities, "unknown" in the last column.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.errors import ConfigError
from newfound_core.plda import Background, class_densities, fit_background

Evidence = Literal["max_logit", "energy", "distance", "combined"]
EVIDENCE: tuple[Evidence, ...] = get_args(Evidence)


@dataclass(frozen=True)
class RejectionConfig:
    """What tells known from unknown."""

    evidence: Evidence = "distance"
    directions: int = 64  # of the features, for "distance" and "combined"

    def __post_init__(self) -> None:
        if self.evidence not in EVIDENCE:
            raise ConfigError(f"evidence must be one of {EVIDENCE}, got {self.evidence!r}")
        if self.directions < 1:
            raise ConfigError(f"directions must be at least 1, got {self.directions}")

    @property
    def uses_distance(self) -> bool:
        """Whether the densities of the classes are needed."""
        return self.evidence in ("distance", "combined")


class Rejection(nn.Module):
    """Logits of C classes in, logarithms of C + 1 probabilities out."""

    slope: Tensor
    bias: Tensor
    temperature: Tensor
    weights: Tensor  # [2], of energy and distance, for "combined"
    centre: Tensor  # [D]; this and the following for "distance" and "combined"
    projection: Tensor  # [D, R]
    variance: Tensor  # [R], of a new object
    precision: Tensor  # [C, R]
    weighted: Tensor  # [C, R]
    offset: Tensor  # [C]

    def __init__(self, features: int, classes: int, config: RejectionConfig) -> None:
        super().__init__()
        self.config = config
        for name in ("slope", "bias", "temperature"):
            self.register_buffer(name, torch.tensor(0.0 if name == "bias" else 1.0))
        if config.evidence == "combined":
            self.register_buffer("weights", torch.ones(2))
        if config.uses_distance:
            directions = min(config.directions, features)
            self.register_buffer("centre", torch.zeros(features))
            self.register_buffer("projection", torch.zeros(features, directions))
            self.register_buffer("variance", torch.ones(directions))
            self.register_buffer("precision", torch.ones(classes, directions))
            self.register_buffer("weighted", torch.zeros(classes, directions))
            self.register_buffer("offset", torch.zeros(classes))

    def forward(self, features: Tensor, logits: Tensor) -> Tensor:
        """Logarithms of the probabilities, [N, C + 1]."""
        known = self.slope * self.evidence(features, logits) + self.bias
        classes = functional.log_softmax(logits / self.temperature, dim=1)
        unknown = log_sigmoid(-known)
        return torch.cat([classes + log_sigmoid(known)[:, None], unknown[:, None]], 1)

    def evidence(self, features: Tensor, logits: Tensor) -> Tensor:
        """How much speaks for a known class, [N]."""
        each = self.class_evidence(features) if self.config.uses_distance else logits
        return self.summed_up(each, logits)

    def summed_up(self, each: Tensor, logits: Tensor) -> Tensor:
        """The evidence from the densities of the classes and the logits, both [N, C]."""
        if self.config.evidence == "combined":
            return self.weights[0] * logits.logsumexp(1) + self.weights[1] * each.max(1).values
        if self.config.evidence == "energy":
            return logits.logsumexp(1)
        return each.max(1).values  # of densities, or of logits

    def class_evidence(self, features: Tensor) -> Tensor:
        """The ratio of densities of each class and a new object, [N, C]."""
        views = (functional.normalize(features, dim=1) - self.centre) @ self.projection
        squares = views.square()
        own = squares @ self.precision.T - 2 * views @ self.weighted.T + self.offset
        return ((squares / self.variance).sum(1, keepdim=True) - own) / 2

    def fit_classes(self, features: Tensor, labels: Tensor) -> None:
        """Set the densities of the classes from training images, where they are used."""
        if not self.config.uses_distance:
            return
        features = functional.normalize(features, dim=1).double()
        found = fit_background(features, labels, self.projection.shape[1])
        background = _padded(found, self.projection.shape[1])
        classes = len(self.offset)
        count = torch.bincount(labels, minlength=classes)
        means = torch.zeros(classes, features.shape[1], dtype=torch.float64)
        means = means.index_add(0, labels, features) / count.clamp_min(1)[:, None]
        densities = class_densities(background, means, count)
        variance = 1 + background.between
        # Twice the log variance joins the squares of the means: one number a class.
        offset = densities.square + 2 * densities.offset - variance.log().sum()
        values = {
            "centre": background.centre,
            "projection": background.projection,
            "variance": variance,
            "precision": densities.precision,
            "weighted": densities.weighted,
            "offset": offset,
        }
        for name, value in values.items():
            getattr(self, name).copy_(value)

    def options(self) -> dict[str, Any]:
        """What makes the same module again, besides its tensors."""
        return {"evidence": self.config.evidence, "directions": self.config.directions}


def log_sigmoid(x: Tensor) -> Tensor:
    """PyTorch's own becomes log(sigmoid(x)) in an ONNX graph, which is -inf below -88."""
    return x.clamp(max=0) - (-x.abs()).exp().log1p()


def build_rejection(
    features: int, classes: int, options: Mapping[str, Any] | None
) -> Rejection | None:
    """The module that `Rejection.options` describe; None for none."""
    return Rejection(features, classes, RejectionConfig(**options)) if options else None


def _padded(background: Background, directions: int) -> Background:
    """The background with columns of zeros where the data had fewer directions."""
    missing = directions - len(background.between)
    return Background(
        background.centre,
        functional.pad(background.projection, (0, missing)),
        functional.pad(background.between, (0, missing)),
    )


def split_unknown(logits: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Probabilities [N, C] of the classes, given that it is one, and [N] that it is none.

    `logits` are those of a classifier with or without rejection; without, nothing is unknown.
    """
    if logits.shape[1] == classes:
        return logits.softmax(1), logits.new_zeros(len(logits))
    return logits[:, :classes].softmax(1), logits.softmax(1)[:, classes]
