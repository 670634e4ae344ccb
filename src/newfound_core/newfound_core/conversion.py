# SPDX-License-Identifier: Apache-2.0
"""From plain batch normalisation to the domain-dependent layer, and back for a fixed mixture."""

import copy
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from newfound_core.assignment import AssignmentContext
from newfound_core.errors import BackboneError, DataError
from newfound_core.normalization import (
    DomainBatchNorm,
    DomainBatchNorm1d,
    DomainBatchNorm2d,
    DomainBatchNormAct2d,
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
        # gamma may be nil or negative, so there is no Gaussian to name: all in gamma, beta.
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
