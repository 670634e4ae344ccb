# SPDX-License-Identifier: Apache-2.0
"""Domain-dependent layers in a network: put in, mixed for one image, and folded away again.

A layer with k domains (thesis 2.4.2, equation 2.4) scales and shifts its channels by a mixture of
k rows, which stay the same from frame to frame. For one image at a time, `DomainMixture` mixes the
rows of all layers by one matrix product, which costs a fraction of one per layer; those would make
WBN a tenth slower than plain batch normalisation.

    mixture = DomainMixture(network)
    with assignment.use(weights, mixture.of(weights[0])):
        network(image)
"""

import copy
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from newfound_core.errors import BackboneError, DataError
from newfound_core.normalization import (
    Affine,
    AssignmentContext,
    DomainBatchNorm,
    DomainBatchNorm1d,
    DomainBatchNorm2d,
    DomainBatchNormAct2d,
    full_precision,
)


def convert_batchnorm(
    module: nn.Module, domains: int, assignment: AssignmentContext | None = None
) -> nn.Module:
    """Replace every batch normalisation in `module` by the layer with `domains` domains.

    Every domain starts from the statistics that the layer had; gamma and beta stay the same
    parameters. The module is changed in place and returned (a new one if it is itself a
    batch normalisation). All new layers share `assignment`.
    """
    context = assignment or AssignmentContext()
    return _replace(module, lambda layer: _with_domains(layer, domains, context), {})


def fold_assignment(module: nn.Module, weights: Tensor) -> nn.Module:
    """A copy of `module` with plain batch normalisation, equal to it for the fixed `weights` [k].

    The copy needs no assignment, and an inference engine can fold its layers into the
    convolutions before them.
    """
    if weights.dim() != 1:
        raise DataError(f"folding needs one weight per domain, got shape {list(weights.shape)}")
    return _replace(copy.deepcopy(module), lambda layer: _folded(layer, weights), {})


def _replace(
    module: nn.Module, make: Callable[[nn.Module], nn.Module], done: dict[nn.Module, nn.Module]
) -> nn.Module:
    """Replace the layers for which `make` gives another; a shared layer stays shared."""
    if module not in done:
        done[module] = new = make(module)
        if new is module:
            for name, child in list(module._modules.items()):
                if child is not None:
                    setattr(module, name, _replace(child, make, done))
    return done[module]


def _with_domains(layer: nn.Module, domains: int, context: AssignmentContext) -> nn.Module:
    if not isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        return layer
    if layer.running_mean is None or layer.running_var is None:
        raise BackboneError(
            f"{layer} keeps no running statistics, so there is nothing for the domains to "
            "start from: build the network with track_running_stats=True"
        )
    kind = DomainBatchNorm1d if isinstance(layer, nn.BatchNorm1d) else DomainBatchNorm2d
    activates = hasattr(layer, "act") and hasattr(layer, "drop")
    new = (DomainBatchNormAct2d if activates else kind)(
        layer.num_features,
        domains,
        context,
        eps=layer.eps,
        momentum=0.1 if layer.momentum is None else layer.momentum,
        affine="shared" if layer.affine else "none",
    )
    new.weight, new.bias = layer.weight, layer.bias
    new.running_mean = layer.running_mean.detach().repeat(domains, 1)
    new.running_var = layer.running_var.detach().repeat(domains, 1)
    if isinstance(new, DomainBatchNormAct2d):
        new.drop, new.act = cast(nn.Module, layer.drop), cast(nn.Module, layer.act)
    return new.train(layer.training)


@torch.no_grad()
def _folded(layer: nn.Module, weights: Tensor) -> nn.Module:
    if not isinstance(layer, DomainBatchNorm):
        return layer
    if len(weights) != layer.domains:
        raise DataError(f"got {len(weights)} weights for a layer with {layer.domains} domains")
    kind = nn.BatchNorm1d if isinstance(layer, DomainBatchNorm1d) else nn.BatchNorm2d
    plain = kind(layer.features, layer.eps, layer.momentum).to(layer.running_mean)
    _copy_mixture(layer, weights.to(layer.running_mean), plain)
    plain.train(layer.training)
    if isinstance(layer, DomainBatchNormAct2d):
        return nn.Sequential(plain, layer.drop, layer.act)
    return plain


def _copy_mixture(
    layer: DomainBatchNorm, weights: Tensor, plain: nn.BatchNorm1d | nn.BatchNorm2d
) -> None:
    """Give `plain` the statistics and parameters of the mixture."""
    assert plain.running_mean is not None
    assert plain.running_var is not None
    mean, variance = layer.running_mean, layer.running_var
    if layer.affine == "domain":
        # gamma may be zero or negative, so there is no Gaussian to name: all in gamma, beta.
        scale, shift = layer.scale_and_shift(weights, mean, variance)
        plain.running_var.fill_(1 - layer.eps)
        plain.weight.copy_(scale)
        plain.bias.copy_(shift)
        return
    inverse = torch.rsqrt(variance + layer.eps)
    scale = weights @ inverse
    plain.running_mean.copy_(weights @ (mean * inverse) / scale)
    plain.running_var.copy_(scale**-2 - layer.eps)
    if layer.weight is not None and layer.bias is not None:
        plain.weight.copy_(layer.weight)
        plain.bias.copy_(layer.bias)


class _Table(NamedTuple):
    """Mixing table, valid until the statistics or parameters of a layer change."""

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
