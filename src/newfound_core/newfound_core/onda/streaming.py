# SPDX-License-Identifier: Apache-2.0
"""Estimator `streaming`: statistics gathered while the frames are predicted."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from newfound_core.normalization import DomainBatchNorm
from newfound_core.onda.estimate import Estimate
from newfound_core.onda.layers import NormalizationLayers, Statistics


@dataclass
class FrameStatistics:
    """What one frame looked like at the input of every layer."""

    mean: Tensor  # [channels of all layers]
    variance: Tensor  # [channels of all layers], biased
    counts: list[int]  # values per channel, for each layer; 0 if it did not run
    weights: Tensor | None  # [domains of all layers]; None if no layer has several


class StreamingEstimator:
    """Listens to the inputs of the layers; adds no pass and keeps no frame."""

    def __init__(self, layers: NormalizationLayers, positions_per_frame: int) -> None:
        self._layers = layers
        self._positions = positions_per_frame
        self._frames = 0  # rotates the rows that are looked at
        self._sample: FrameStatistics | None = None
        ends = torch.tensor(layers.channels).cumsum(0).tolist()
        self._handles = []
        for index, (module, end) in enumerate(zip(layers.modules, ends, strict=True)):
            rows = slice(end - layers.channels[index], end)
            hook = partial(self._observe, index, rows)
            self._handles.append(module.register_forward_pre_hook(hook))

    def start(self, frame: Tensor) -> None:
        """Listen to the next pass."""
        layers = self._layers
        mean = torch.zeros(sum(layers.channels), device=layers.eps.device, dtype=frame.dtype)
        weights = None if layers.plain else mean.new_zeros(sum(layers.domains))
        counts = [0] * len(layers.modules)
        self._sample = FrameStatistics(mean, torch.zeros_like(mean), counts, weights)
        self._frames += 1

    def finish(self) -> FrameStatistics | None:
        """What was heard, unless some of it is not a number."""
        sample, self._sample = self._sample, None
        if sample is None or not torch.isfinite(sample.mean + sample.variance).all():
            return None
        return sample

    @torch.no_grad()
    def _observe(self, index: int, rows: slice, module: nn.Module, inputs: tuple[Any]) -> None:
        sample = self._sample
        if sample is None:
            return
        values = sample_rows(inputs[0], self._positions, self._frames)
        sample.counts[index] = values.shape[1]
        mean = torch.mean(values, 1, out=sample.mean[rows])
        # Deviations from the frame's own mean: sums of squares lose small variances.
        deviation = torch.linalg.vector_norm(values - mean[:, None], dim=1)
        torch.mul(deviation, deviation / values.shape[1], out=sample.variance[rows])
        if sample.weights is not None:
            start = sum(self._layers.domains[:index])
            sample.weights[start : start + self._layers.domains[index]] = mean_assignment(module)

    @torch.no_grad()
    def estimate(self, samples: Sequence[FrameStatistics], current: Statistics) -> Estimate:
        """Merge the frames, weighted by their number of values and their assignment."""
        layers = self._layers
        counts = torch.tensor([s.counts for s in samples], dtype=torch.float64)  # [n, layers]
        weight = counts.to(layers.row_layer.device)[:, layers.row_layer]  # [n, rows]
        share = (weight > 0).double()
        if not layers.plain:
            assigned = torch.stack([s.weights for s in samples if s.weights is not None])
            share = share * assigned.double()[:, layers.row_group]
        means = torch.stack([s.mean for s in samples]).double()[:, layers.row_channel]
        variances = torch.stack([s.variance for s in samples]).double()[:, layers.row_channel]
        mean, variance = merge(means, variances, weight, share)
        moved = share.mean(0)
        seen = moved > 0
        mean = torch.where(seen, mean, current.mean)
        variance = torch.where(seen, variance, current.variance)
        return Estimate(
            Statistics(mean.to(current.mean), variance.to(current.variance)),
            moved.to(current.mean),
        )

    def close(self) -> None:
        """Stop listening."""
        for handle in self._handles:
            handle.remove()


def merge(
    means: Tensor, variances: Tensor, counts: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean and unbiased variance of frames together; all arguments are [frames, rows].

    The deviations of the frames' means are added to the variances within the frames. n of
    n / (n - 1) is the effective number of values, (sum w)^2 / sum w^2 over all values, which
    is their plain number where all weights are 1.
    """
    mass = (counts * weights).sum(0).clamp(min=torch.finfo(means.dtype).tiny)
    share = counts * weights / mass
    mean = (share * means).sum(0)
    biased = (share * (variances + (means - mean) ** 2)).sum(0)
    inverse_n = (counts * weights**2).sum(0) / mass**2
    return mean, biased / (1 - inverse_n).clamp(min=1e-12)


def sample_rows(x: Tensor, positions: int, offset: int) -> Tensor:
    """About `positions` values per channel of a layer's input, as [channels, values]."""
    if x.dim() == 4:
        every = min(x.shape[2], max(1, x.shape[2] * x.shape[3] // positions))
        x = x[:, :, offset % every :: every]
    return x.transpose(0, 1).flatten(1)


def mean_assignment(module: nn.Module) -> Tensor | float:
    """The share of each domain in the images of the pass that runs now."""
    if not isinstance(module, DomainBatchNorm) or module.domains == 1:
        return 1.0
    weights = module.assignment.weights
    assert weights is not None  # the layer itself refuses to run without
    return weights if weights.dim() == 1 else weights.mean(0)
