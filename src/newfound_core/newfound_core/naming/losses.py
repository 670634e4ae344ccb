# SPDX-License-Identifier: Apache-2.0
"""The training losses of CuMix (thesis 6.3).

    L_AGG  = l(s(f(x_i)), y_i)
    L_MIMG = l(s(f(phi(x_i, x_j, x_k))), phi(y_i, y_j, y_k))       a second pass of mixed images
    L_MF   = l(s(phi(f(x_i), f(x_j), f(x_k))), phi(y_i, y_j, y_k))
    L      = L_AGG + eta_I L_MIMG + eta_F L_MF

f makes features, s scores the seen classes: the product with their word vectors (zero-shot), or a
trained linear layer (domain generalisation). l is the cross entropy, with soft labels where mixed.
Partners and shares are drawn anew for images and for features.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.errors import ConfigError
from newfound_core.naming.mixing import curriculum, draw_mixture


@dataclass(frozen=True)
class MixingConfig:
    """How much is mixed, and when."""

    feature_mix: float = 1.0  # eta_F
    image_mix: float = 0.0  # eta_I
    strength: float = 1.0  # beta_max
    warm_up: int = 2  # N, epochs; 0: no curriculum, always across domains
    across_domains: bool = True  # False: mixup within domains only

    def __post_init__(self) -> None:
        if self.feature_mix < 0 or self.image_mix < 0:
            raise ConfigError("the weights of mixed samples must not be negative")
        if not self.strength > 0 or self.warm_up < 0:
            raise ConfigError(f"strength must be positive and warm_up 0 or more, got "
                              f"{self.strength} and {self.warm_up}")  # fmt: skip

    def at(self, epoch: int) -> tuple[float, float]:
        """(beta, alpha) of an epoch."""
        beta, alpha = curriculum(epoch, self.warm_up, self.strength)
        return beta, alpha if self.across_domains else 0.0


@dataclass(frozen=True)
class LossTerms:
    """The terms of the loss, and the mean of min(lambda, 1 - lambda), which says if it mixes."""

    plain: Tensor
    mixed_features: Tensor
    mixed_images: Tensor
    total: Tensor
    mixed_share: float


def soft_cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean over samples of -sum_y labels_y log softmax_y; labels [N, classes]."""
    return -(labels * functional.log_softmax(scores, dim=1)).sum(dim=1).mean()


def cumix_loss(
    features_of: nn.Module,
    scores_of: Callable[[Tensor], Tensor],
    images: Tensor,
    labels: Tensor,
    *,
    domains: np.ndarray,
    config: MixingConfig,
    epoch: int,
    generator: np.random.Generator,
) -> LossTerms:
    """All terms for a batch of images [N, ...] with class numbers [N] and domain numbers [N]."""
    features = features_of(images)
    scores = scores_of(features)
    plain = functional.cross_entropy(scores, labels)
    one_hot = functional.one_hot(labels, scores.shape[1]).to(scores.dtype)
    zero, share = plain.new_zeros(()), 0.0
    of_features, of_images = zero, zero
    beta, alpha = config.at(epoch)
    if config.feature_mix:
        mixture = draw_mixture(domains, beta, alpha, generator)
        of_features = soft_cross_entropy(scores_of(mixture(features)), mixture(one_hot))
        share = float(torch.minimum(mixture.shares, 1 - mixture.shares).mean())
    if config.image_mix:
        mixture = draw_mixture(domains, beta, alpha, generator)
        with frozen_statistics(features_of):
            mixed = scores_of(features_of(mixture(images)))
        of_images = soft_cross_entropy(mixed, mixture(one_hot))
        share = share or float(torch.minimum(mixture.shares, 1 - mixture.shares).mean())
    total = plain + config.feature_mix * of_features + config.image_mix * of_images
    return LossTerms(plain, of_features, of_images, total, share)


@contextmanager
def frozen_statistics(network: nn.Module) -> Iterator[None]:
    """Normalise by the batch without moving running statistics: no camera sees mixed images."""
    layers = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    momenta = [layer.momentum for layer in layers]
    counts = [layer.num_batches_tracked.clone() if layer.num_batches_tracked is not None else None
              for layer in layers]  # fmt: skip
    for layer in layers:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum, count in zip(layers, momenta, counts, strict=True):
            layer.momentum = momentum
            if count is not None and layer.num_batches_tracked is not None:
                layer.num_batches_tracked.copy_(count)
