# SPDX-License-Identifier: Apache-2.0
"""Estimator `streaming`: statistics gathered while the frames are predicted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from newfound_core.normalization import DomainBatchNorm
from newfound_core.onda.estimate import Estimate
from newfound_core.onda.folding import FoldedNetwork
from newfound_core.onda.layers import NormalizationLayers, Statistics
from newfound_core.onda.samples import FrameSamples


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
        self._samples = FrameSamples(layers.channels, positions_per_frame)
        self._frames = 0  # shifts the grid from frame to frame
        self._listening = False
        self._weights: dict[int, Tensor | float] = {}
        self._folded: FoldedNetwork | None = None
        self._handles = self._listen_to(layers.modules)

    def _listen_to(self, modules: Sequence[nn.Module]) -> list[RemovableHandle]:
        return [
            module.register_forward_pre_hook(partial(self._observe, index))
            for index, module in enumerate(modules)
        ]

    def serve_with(self, folded: FoldedNetwork) -> None:
        """Listen to the folded network from now on."""
        self.close()
        self._folded = folded
        self._handles = self._listen_to(folded.observed)

    def start(self, frame: Tensor) -> None:
        """Listen to the next pass."""
        self._samples.begin()
        self._listening = True
        self._frames += 1

    def _observe(self, index: int, module: nn.Module, inputs: tuple[Any]) -> None:
        if not self._listening:
            return
        self._samples.take(index, inputs[0], self._frames)
        if not self._layers.plain:
            self._weights[index] = mean_assignment(module)

    @torch.no_grad()
    def finish(self) -> FrameStatistics | None:
        """What was heard, unless some of it is not a number."""
        if not self._listening:
            return None
        self._listening = False
        found = self._samples.statistics()
        if found is None:
            return None
        mean, variance = found
        if not math.isfinite(float(mean.sum() + variance.sum())):
            return None
        if self._folded is not None:
            mean, variance = self._folded.unfold(mean, variance)
        weights = None
        if not self._layers.plain:
            weights = self._layers.per_domain(self._weights, like=mean)
        return FrameStatistics(mean, variance, self._samples.counts(), weights)

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
        spread = (means - mean).square_().add_(variances)
        biased = (share * spread).sum(0)
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


def mean_assignment(module: nn.Module) -> Tensor | float:
    """The share of each domain in the images of the pass that runs now."""
    if not isinstance(module, DomainBatchNorm) or module.domains == 1:
        return 1.0
    weights = module.assignment.weights
    assert weights is not None  # the layer itself refuses to run without
    return weights if weights.dim() == 1 else weights.mean(0)
