# SPDX-License-Identifier: Apache-2.0
"""Mixing of samples within and across domains, and the curriculum of CuMix (thesis 6.3).

    phi(a_i, a_j, a_k) = lambda a_i + (1 - lambda) (gamma a_j + (1 - gamma) a_k)
    d_k = d_i,  d_j != d_i,  lambda ~ Beta(beta, beta),  gamma ~ Bernoulli(alpha), for each sample

gamma is 0 or 1, so a sample has one partner. Everything is a function of a generator.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from newfound_core.errors import ConfigError

SMALLEST_BETA = 0.1  # Beta(0, 0) does not exist; the authors' code has the same floor


@dataclass(frozen=True)
class Mixture:
    """For each sample its partner [N] and its own share, lambda [N]."""

    partners: Tensor
    shares: Tensor

    def __call__(self, samples: Tensor) -> Tensor:
        """Mix samples [N, ...] with those of their partners."""
        share = self.shares.to(samples.dtype).view(-1, *[1] * (samples.dim() - 1))
        return share * samples + (1 - share) * samples[self.partners]


def curriculum(epoch: int, warm_up: int, strength: float) -> tuple[float, float]:
    """(beta, alpha) of an epoch counted from 0; `strength` is beta_max, `warm_up` N.

    Mixes grow within domains for N epochs, then cross domains ever more often until 2 N.
    """
    if warm_up < 1:
        return strength, 1.0
    beta = min(strength, max(strength * epoch / warm_up, SMALLEST_BETA))
    return beta, max(0.0, min((epoch - warm_up) / warm_up, 1.0))


def draw_mixture(
    domains: np.ndarray, beta: float, alpha: float, generator: np.random.Generator
) -> Mixture:
    """Draw lambda, gamma and partners of a batch from the domain of each sample.

    Ours: j is drawn uniformly from all samples of other domains, and k is never i where the
    domain has another sample. The authors' code permutes whole blocks.
    """
    if not beta > 0 or not 0 <= alpha <= 1:
        raise ConfigError(f"mixing needs beta > 0 and alpha in [0, 1], got {beta} and {alpha}")
    count = len(domains)
    shares = generator.beta(beta, beta, count)
    across = generator.random(count) < alpha
    partners = np.empty(count, np.int64)
    for i in range(count):
        same = np.flatnonzero(domains == domains[i])
        other = np.flatnonzero(domains != domains[i])
        if across[i] and len(other):
            partners[i] = generator.choice(other)
        else:
            same = same[same != i] if len(same) > 1 else same
            partners[i] = generator.choice(same)
    return Mixture(torch.from_numpy(partners), torch.from_numpy(shares))
