# SPDX-License-Identifier: Apache-2.0
"""How far the statistics have moved from the source."""

from dataclasses import dataclass

import torch

from newfound_core.onda.layers import NormalizationLayers, Statistics


@dataclass(frozen=True)
class Drift:
    """Symmetric KL divergence between source and current Gaussians, in nats."""

    per_layer: dict[str, float]  # averaged over the channels (and domains) of the layer

    @property
    def mean(self) -> float:
        """Over the layers."""
        return sum(self.per_layer.values()) / len(self.per_layer)

    @property
    def maximum(self) -> float:
        """Over the layers."""
        return max(self.per_layer.values())


def measure_drift(layers: NormalizationLayers, source: Statistics, now: Statistics) -> Drift:
    """KL(source, now) + KL(now, source), with the variances that the layers divide by.

    For Gaussians the logarithms cancel: ((v0 + d^2) / v1 + (v1 + d^2) / v0) / 2 - 1.
    """
    v0, v1 = source.variance.double() + layers.eps, now.variance.double() + layers.eps
    square = (source.mean.double() - now.mean.double()) ** 2
    divergence = ((v0 + square) / v1 + (v1 + square) / v0) / 2 - 1
    sums = torch.zeros(len(layers.names), dtype=torch.float64, device=divergence.device)
    sums.index_add_(0, layers.row_layer, divergence)
    averages = sums / torch.bincount(layers.row_layer)
    return Drift(dict(zip(layers.names, averages.tolist(), strict=True)))
