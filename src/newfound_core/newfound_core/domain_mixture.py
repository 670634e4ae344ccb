# SPDX-License-Identifier: Apache-2.0
"""Serving one image at a time: the mixtures of all layers by one matrix product.

A layer with k domains scales and shifts its channels by a mixture of k rows, which stay the same
from frame to frame. One product for a whole network costs a fraction of one per layer, which
would make WBN a tenth slower than plain batch normalisation.

    mixture = DomainMixture(network)
    with assignment.use(weights, mixture.of(weights[0])):
        network(image)
"""

import copy
import operator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from newfound_core.assignment import Affine
from newfound_core.normalization import DomainBatchNorm, full_precision


class _Table(NamedTuple):
    """What holds until the statistics or parameters of a layer change."""

    tensors: list[Tensor]  # of all layers, in order
    versions: list[int]
    rows: Tensor  # [2 x channels of all layers, k]: scales, then shifts
    sizes: list[int]  # channels of each layer, twice over
    zeros: list[Tensor]  # [C] of each layer
    ones: list[Tensor]


class DomainMixture:
    """The layers with several domains in a network, mixed together."""

    def __init__(self, network: nn.Module) -> None:
        modules = network.modules()
        self._layers = [m for m in modules if isinstance(m, DomainBatchNorm) and m.domains > 1]
        self._table: _Table | None = None  # replaced as a whole: threads see one or the other

    def of(self, weights: Tensor) -> dict[nn.Module, Affine]:
        """Scale and shift of each layer for the mixture `weights` [k] of the domains."""
        if not self._layers:  # a model with one domain is plain
            return {}
        table = self._current()
        with full_precision(table.rows.device):
            mixed = torch.mv(table.rows, weights.to(table.rows.dtype))
        parts = mixed.split_with_sizes(table.sizes)
        count = len(self._layers)
        affine = map(Affine, parts[:count], parts[count:], table.zeros, table.ones)
        return dict(zip(self._layers, affine, strict=True))

    def _current(self) -> _Table:
        """The table; a tensor replaced or changed in place shows by its identity or version."""
        tensors = [tensor for layer in self._layers for tensor in _tensors(layer)]
        try:
            versions = [tensor._version for tensor in tensors]
        except RuntimeError:  # made in inference mode: no version to compare
            return self._new_table(tensors, [])
        table = self._table
        if (
            table is None
            or table.versions != versions
            or not all(map(operator.is_, table.tensors, tensors))
        ):
            table = self._table = self._new_table(tensors, versions)
        return table

    @torch.no_grad()
    def _new_table(self, tensors: list[Tensor], versions: list[int]) -> _Table:
        affine = [_each_domain(layer) for layer in self._layers]
        rows = torch.cat([scale for scale, _ in affine] + [shift for _, shift in affine], 1)
        sizes = [layer.features for layer in self._layers]
        zeros = [rows.new_zeros(size) for size in sizes]
        ones = [rows.new_ones(size) for size in sizes]
        # Transposed but not copied: the product is twice as fast on columns.
        return _Table(tensors, versions, rows.T, sizes * 2, zeros, ones)

    # Versions of the originals say nothing about the copies.
    def __deepcopy__(self, memo: dict[int, Any]) -> "DomainMixture":
        new = memo[id(self)] = DomainMixture(nn.Module())
        new._layers = copy.deepcopy(self._layers, memo)
        return new


def _tensors(layer: DomainBatchNorm) -> list[Tensor]:
    state = [layer.running_mean, layer.running_var, layer.weight, layer.bias]
    return [tensor for tensor in state if tensor is not None]


def _each_domain(layer: DomainBatchNorm) -> tuple[Tensor, Tensor]:
    """Scale and shift of every domain alone, [k, C] each."""
    mean, variance = layer.running_mean, layer.running_var
    alone = torch.eye(layer.domains, dtype=mean.dtype, device=mean.device)
    return layer.scale_and_shift(alone, mean, variance)
