# SPDX-License-Identifier: Apache-2.0
"""Unlabelled images sorted into domains by what they look like behind the first layer.

k-means of the mean and deviation of every channel that the first normalisation layer sees.
"""

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.errors import DataError
from newfound_core.onda.statistics import NormalizationLayers

_RESTARTS, _STEPS = 8, 100


@torch.no_grad()
def stem_statistics(network: nn.Module, images: Tensor) -> np.ndarray:
    """Mean and deviation of the channels of each image, [N, 2 channels]."""
    seen: list[Tensor] = []
    first = NormalizationLayers(network).modules[0]
    handle = first.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        network(images)
    finally:
        handle.remove()
    deviation, mean = torch.var_mean(seen[0].float(), (2, 3), unbiased=False)
    return torch.cat([mean, deviation.sqrt()], 1).cpu().numpy()


def cluster(features: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """The cluster of each row, by k-means of standardised columns; the best of some starts."""
    if len(features) < count:
        raise DataError(f"{len(features)} images cannot make {count} domains: give more footage")
    unit = features.std(0)
    values = (features - features.mean(0)) / np.where(unit > 0, unit, 1)
    starts = (np.random.default_rng([seed, start]) for start in range(_RESTARTS))
    return min((_k_means(values, count, rng) for rng in starts), key=lambda found: found[1])[0]


def _k_means(
    values: np.ndarray, count: int, generator: np.random.Generator
) -> tuple[np.ndarray, float]:
    centres = values[generator.permutation(len(values))[:count]]
    labels = np.full(len(values), -1)
    for _ in range(_STEPS):
        squared = ((values[:, None] - centres[None]) ** 2).sum(2)
        found = squared.argmin(1)
        if (found == labels).all():
            break
        labels = found
        for index in range(count):
            if (labels == index).any():
                centres[index] = values[labels == index].mean(0)
    return labels, float(squared.min(1).sum())
