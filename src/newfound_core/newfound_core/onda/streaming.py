# SPDX-License-Identifier: Apache-2.0
"""Estimator `streaming`: statistics gathered while the frames are predicted."""

import math
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
    """Listens to the inputs of the layers; adds no pass and keeps no frame.

    While a frame runs, each layer only copies a grid of its input; means and variances are
    computed afterwards for all layers together, which is several times faster.
    """

    def __init__(self, layers: NormalizationLayers, positions_per_frame: int) -> None:
        self._layers = layers
        self._positions = positions_per_frame
        self._frames = 0  # shifts the grid from frame to frame
        self._values: dict[int, Tensor] | None = None
        self._buffers: dict[int, Tensor] = {}  # one per layer, reused from frame to frame
        self._weights: dict[int, Tensor | float] = {}
        self._handles = [
            module.register_forward_pre_hook(partial(self._observe, index))
            for index, module in enumerate(layers.modules)
        ]

    def start(self, frame: Tensor) -> None:
        """Listen to the next pass."""
        self._values = {}
        self._frames += 1

    def _observe(self, index: int, module: nn.Module, inputs: tuple[Any]) -> None:
        if self._values is None:
            return
        grid = sample_grid(inputs[0], self._positions, self._frames)
        buffer = self._buffers.get(index)
        if buffer is None or buffer.shape != grid.shape or buffer.dtype != grid.dtype:
            buffer = self._buffers[index] = torch.empty_like(
                grid, memory_format=torch.contiguous_format
            )
        # A copy: what follows in the network may overwrite its input.
        self._values[index] = buffer.copy_(grid)
        if not self._layers.plain:
            self._weights[index] = mean_assignment(module)

    @torch.no_grad()
    def finish(self) -> FrameStatistics | None:
        """What was heard, unless some of it is not a number."""
        values, self._values = self._values, None
        if not values:
            return None
        mean, variance = self._statistics(values)
        if not math.isfinite(float(mean.sum() + variance.sum())):
            return None
        counts = [
            values[index][0].numel() if index in values else 0
            for index in range(len(self._layers.names))
        ]
        weights = None
        if not self._layers.plain:
            weights = self._layers.per_domain(self._weights, like=mean)
        return FrameStatistics(mean, variance, counts, weights)

    def _statistics(self, values: dict[int, Tensor]) -> tuple[Tensor, Tensor]:
        """Mean and variance of all layers; those with equally many values go together."""
        parts: dict[int, tuple[Tensor, Tensor]] = {}
        widths = {index: v[0].numel() for index, v in values.items()}
        for width in set(widths.values()):
            members = [index for index in values if widths[index] == width]
            sizes = [self._layers.channels[index] for index in members]
            together = torch.cat([values[index].view(-1, width) for index in members])
            mean = together.mean(1)
            # Deviations from the frame's own mean: sums of squares would lose small variances.
            deviation = torch.linalg.vector_norm(together.sub_(mean[:, None]), dim=1)
            variance = deviation * (deviation / width)  # large squares do not overflow early
            pieces = zip(mean.split(sizes), variance.split(sizes), strict=True)
            parts.update(zip(members, pieces, strict=True))
        like = next(iter(values.values()))
        for index, channels in enumerate(self._layers.channels):
            if index not in parts:
                parts[index] = (like.new_zeros(channels), like.new_zeros(channels))
        ordered = [parts[index] for index in range(len(parts))]
        return torch.cat([m for m, _ in ordered]), torch.cat([v for _, v in ordered])

    @torch.no_grad()
    def estimate(self, samples: Sequence[FrameStatistics], current: Statistics) -> Estimate:
        """Merge the frames, weighted by their number of values and their assignment."""
        layers, like = self._layers, current.mean
        counts = like.new_tensor([s.counts for s in samples])[:, layers.group_layer]
        assigned = (counts > 0).to(like)  # [frames, groups]
        if not layers.plain:
            assigned = assigned * torch.stack(
                [s.weights for s in samples if s.weights is not None]
            )
        share, correction = merge_weights(counts, assigned)
        if (share == share[:, :1]).all():
            share = share[:, :1]  # the usual case, and much cheaper than a weight per row
        else:
            share = share.index_select(1, layers.row_group)
        means = layers.to_rows(torch.stack([s.mean for s in samples]).to(like))
        variances = layers.to_rows(torch.stack([s.variance for s in samples]).to(like))
        mean = (share * means).sum(0)
        # The deviations of the frames' means are added to the variances within the frames.
        biased = (share * (variances + (means - mean) ** 2)).sum(0)
        variance = biased * correction[layers.row_group]
        moved = assigned.mean(0)[layers.row_group]
        statistics = Statistics(
            torch.where(moved > 0, mean, current.mean),
            torch.where(moved > 0, variance, current.variance),
        )
        return Estimate(statistics, moved)

    def close(self) -> None:
        """Stop listening."""
        for handle in self._handles:
            handle.remove()


def merge_weights(counts: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """How much each frame counts, [frames, groups] summing to 1, and n / (n - 1), [groups].

    n is the effective number of values, (sum w)^2 / sum w^2 over all values, which is their
    plain number where all weights are 1.
    """
    mass = (counts * weights).sum(0).clamp(min=torch.finfo(counts.dtype).tiny)
    share = counts * weights / mass
    inverse_n = (share * weights / mass).sum(0)
    return share, 1 / (1 - inverse_n).clamp(min=1e-6)


def sample_grid(x: Tensor, positions: int, frame: int) -> Tensor:
    """About `positions` values of each channel, on a regular grid, as [channels, N, ...].

    The grid moves with the number of the frame, so that in time every position is seen.
    """
    if x.dim() != 4:
        return x.transpose(0, 1)
    images, channels, height, width = x.shape
    step = max(1, round(math.sqrt(height * width / positions)))
    down, right = min(step, height), min(step, width)
    image, channel, row, column = x.stride()
    offset = frame % down * row + frame // down % right * column
    # One view instead of a chain of slices: this runs for every layer of every frame.
    return x.as_strided(
        (channels, images, height // down, width // right),
        (channel, image, row * down, column * right),
        x.storage_offset() + offset,
    )


def mean_assignment(module: nn.Module) -> Tensor | float:
    """The share of each domain in the images of the pass that runs now."""
    if not isinstance(module, DomainBatchNorm) or module.domains == 1:
        return 1.0
    weights = module.assignment.weights
    assert weights is not None  # the layer itself refuses to run without
    return weights if weights.dim() == 1 else weights.mean(0)
