# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation whose statistics depend on the domain: one layer for WBN, mDA and ONDA.

Domain alignment layers: F. M. Carlucci, L. Porzi, B. Caputo, E. Ricci, S. Rota Bulò, "Just DIAL",
ICIAP 2017, arXiv:1702.06332; thesis 2.3, equation 2.1. For latent domains (mDA): M. Mancini,
L. Porzi, S. Rota Bulò, B. Caputo, E. Ricci, "Boosting Domain Adaptation by Discovering Latent
Domains", CVPR 2018, arXiv:1805.01386; thesis 2.4.2, equations 2.2 to 2.4, gradients in appendix A.

For k domains and assignments w[i, d] of the images i of a batch, with statistics

    mu_d  = sum_i alpha[i, d] x_i,   var_d = sum_i alpha[i, d] (x_i - mu_d)²                 (2.2)
    alpha[i, d] = w[i, d] / sum_j w[j, d]                                                   (2.3)
    y_i   = gamma sum_d w[i, d] (x_i - mu_d) / sqrt(var_d + eps) + beta                     (2.4)

Since the assignment of an image is the same at all its positions, everything follows from the mean
and variance of each image and channel, and the result is one scale and one shift per image and
channel: the cost does not grow with k.

One assignment per image serves all layers. The model that owns the layers sets it around its
forward pass:

    with self.assignment.use(weights):
        features = self.backbone(images)

A context belongs to one model and remembers one value per thread, so neither two models nor two
passes of the same model in two threads can see each other's assignment.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.errors import ConfigError, DataError


class Affine(NamedTuple):
    """One mixture of a layer's domains, as the kernel of plain batch normalisation takes it."""

    scale: Tensor
    shift: Tensor
    mean: Tensor  # zero
    variance: Tensor  # one


Mixed = Mapping[nn.Module, Affine]
_NOTHING: Mixed = MappingProxyType({})


class AssignmentContext:
    """The domain weights that hold during the forward pass of one model.

    Weights are `[N, k]`, one row per image, or `[k]`, the same for the whole batch. They are
    not negative and a row sums to one.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    @property
    def weights(self) -> Tensor | None:
        """The weights in force in this thread, or None outside of `use`."""
        return getattr(self._local, "weights", None)

    @property
    def mixed(self) -> Mixed:
        """Mixtures of the weights in force, for the layers for which they are known already."""
        return getattr(self._local, "mixed", _NOTHING)

    @contextmanager
    def use(self, weights: Tensor, mixed: Mixed = _NOTHING) -> Iterator[None]:
        """Let `weights` hold for every layer that runs inside the `with` block."""
        if weights.dim() not in (1, 2) or not weights.is_floating_point():
            raise DataError(
                f"a domain assignment is a float tensor [images, domains] or [domains], "
                f"got {weights.dtype} {list(weights.shape)}"
            )
        before = self.weights, self.mixed
        self._local.weights, self._local.mixed = weights, mixed
        try:
            yield
        finally:
            self._local.weights, self._local.mixed = before

    def required(self, images: int, domains: int) -> Tensor:
        """The weights in force, checked against what a layer with `domains` domains needs."""
        weights = self.weights
        if weights is None:
            raise DataError(
                f"no domain assignment is set, but a layer with {domains} domains runs. "
                "Run the network through its model, or inside `with assignment.use(weights):`"
            )
        if weights.shape[-1] != domains or (weights.dim() == 2 and weights.shape[0] != images):
            raise DataError(
                f"the domain assignment has shape {list(weights.shape)}, but this layer sees "
                f"{images} images and has {domains} domains: expected [{images}, {domains}] "
                f"or [{domains}]"
            )
        return weights

    # A copied model gets a context of its own (shared by its layers through `memo`), and
    # thread-local values are never copied.
    def __deepcopy__(self, memo: dict[int, Any]) -> "AssignmentContext":
        return memo.setdefault(id(self), AssignmentContext())


Total = Callable[[Tensor], Tensor]

# A domain with less mass than this (in values per channel) is absent from the batch.
ABSENT = 1e-6


class WeightedStatistics(NamedTuple):
    """Statistics of each domain in a batch."""

    mean: Tensor  # [k, C]
    variance: Tensor  # [k, C], biased: what the batch is normalised by
    mass: Tensor  # [k], weighted number of values behind them
    values: Tensor  # [k], effective number of values: n in n / (n - 1)


def _of_this_process(tensor: Tensor) -> Tensor:
    return tensor


def weighted_statistics(
    x: Tensor, weights: Tensor, total: Total = _of_this_process
) -> WeightedStatistics:
    """Mean and biased variance of every domain; `x` is [N, C, ...], `weights` [N, k].

    `total` adds a sum up over all processes that hold a part of the batch, differentiably.

    The effective number of values is (sum w)^2 / sum w^2 (Kish). For hard assignments it is
    the number of the domain's values, and for soft ones it makes n / (n - 1) the exact
    correction, whereas n = sum w would turn it negative for a domain of little mass.
    """
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    weights = weights.to(x.dtype)
    mean, variance = _image_statistics(x)
    positions = x[0, 0].numel()
    mass = total(weights.sum(0) * positions)
    share = weights * positions / mass.clamp(min=ABSENT)  # [N, k], sums to 1 over images
    domain_mean = total(share.T @ mean)
    spread = variance[:, None] + (mean[:, None] - domain_mean) ** 2  # [N, k, C]
    domain_variance = total(torch.einsum("nk,nkc->kc", share, spread))
    squares = total((weights.detach() ** 2).sum(0) * positions)
    values = mass.detach() ** 2 / squares.clamp(min=torch.finfo(x.dtype).tiny)
    return WeightedStatistics(domain_mean, domain_variance, mass.detach(), values)


def _image_statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance over the positions of each image and channel, [N, C] each."""
    if x.dim() == 2:
        return x, torch.zeros_like(x)
    flat = x.flatten(2)
    mean = flat.mean(2)
    # Not torch.var_mean: on a CPU it takes about ten times as long.
    return mean, (flat - mean[..., None]).square().mean(2)


def full_precision(device: torch.device) -> AbstractContextManager[None]:
    """Let autocast leave products of statistics alone, which half precision may not hold."""
    if not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


class DomainBatchNorm(nn.Module):
    """Base of the 1d and 2d layers; see the module's description.

    With `domains=1` it is `nn.BatchNorm` and needs no assignment. With `affine="domain"`
    every domain has its own gamma and beta.
    """

    allowed_dims: tuple[int, ...] = ()

    def __init__(
        self,
        features: int,
        domains: int,
        assignment: AssignmentContext | None = None,
        *,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: str = "shared",
    ) -> None:
        super().__init__()
        if features < 1 or domains < 1:
            raise ConfigError(f"need at least 1 feature and 1 domain, got {features}, {domains}")
        if affine not in ("shared", "domain", "none"):
            raise ConfigError(f"affine must be 'shared', 'domain' or 'none', got {affine!r}")
        self.features, self.domains, self.affine = features, domains, affine
        self.eps, self.momentum = eps, momentum
        self.assignment = assignment or AssignmentContext()
        shape = (domains, features) if affine == "domain" else (features,)
        self.weight = nn.Parameter(torch.ones(shape)) if affine != "none" else None
        self.bias = nn.Parameter(torch.zeros(shape)) if affine != "none" else None
        self.register_buffer("running_mean", torch.zeros(domains, features))
        self.register_buffer("running_var", torch.ones(domains, features))
        # How sums over the batch are completed where several processes share it; see `Total`.
        self.total: Total | None = None

    running_mean: Tensor
    running_var: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x` by the domains that the assignment in force names."""
        if x.dim() not in self.allowed_dims or x.shape[1] != self.features:
            raise DataError(
                f"{type(self).__name__} expects a tensor of {self.allowed_dims} dimensions "
                f"with {self.features} channels, got {list(x.shape)}"
            )
        if self.domains == 1 and (self.total is None or not self.training):
            return self._plain(x)
        if self.domains == 1:
            return self._train(x, x.new_ones(x.shape[0], 1))
        weights = self.assignment.required(x.shape[0], self.domains)
        if self.training:
            return self._train(x, weights.expand(x.shape[0], -1))
        mixed = self.assignment.mixed.get(self)
        if mixed is not None and mixed.scale.dtype == x.dtype:
            # Not through `functional`, whose checks a layer of a small network feels.
            return torch.batch_norm(x, *mixed, False, 0.0, 0.0, False)
        return self._normalize(x, weights, self.running_mean, self.running_var)

    def _plain(self, x: Tensor) -> Tensor:
        """k = 1: plain batch normalisation, bit for bit."""
        weight = None if self.weight is None else self.weight.view(-1)
        bias = None if self.bias is None else self.bias.view(-1)
        mean, variance = self.running_mean[0], self.running_var[0]
        return functional.batch_norm(
            x, mean, variance, weight, bias, self.training, self.momentum, self.eps
        )

    def _train(self, x: Tensor, weights: Tensor) -> Tensor:
        """Normalise by the batch's own statistics and let the running ones follow."""
        with full_precision(x.device):
            batch = weighted_statistics(x, weights, self.total or _of_this_process)
        present = (batch.mass > ABSENT)[:, None]
        # What an absent domain would have contributed is unknown; its weight is zero anyway.
        mean = torch.where(present, batch.mean, self.running_mean)
        variance = torch.where(present, batch.variance, self.running_var)
        self._follow(batch)
        return self._normalize(x, weights, mean, variance)

    @torch.no_grad()
    def _follow(self, batch: WeightedStatistics) -> None:
        """Move the running statistics of the domains of which the batch has a variance."""
        n = batch.values[:, None]
        unbiased = batch.variance * n / (n - 1).clamp(min=ABSENT)
        finite = batch.mean.isfinite() & unbiased.isfinite()
        usable = (batch.mass[:, None] > ABSENT) & (n > 1 + ABSENT) & finite
        mean = self.running_mean.lerp(batch.mean.to(self.running_mean.dtype), self.momentum)
        variance = self.running_var.lerp(unbiased.to(self.running_var.dtype), self.momentum)
        self.running_mean.copy_(torch.where(usable, mean, self.running_mean))
        self.running_var.copy_(torch.where(usable, variance, self.running_var))

    def _normalize(self, x: Tensor, weights: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Apply the mixture of domains to `x`; differentiable in everything."""
        scale, shift = self.scale_and_shift(weights.to(mean.dtype), mean, variance)
        tail = (...,) + (None,) * (x.dim() - 2)
        return (x * scale[tail] + shift[tail]).to(x.dtype)

    def scale_and_shift(
        self, weights: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The a, b of y = a x + b, per row of `weights` and channel."""
        with full_precision(mean.device):
            return self._scale_and_shift(weights, mean, variance)

    def _scale_and_shift(
        self, weights: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        inverse = torch.rsqrt(variance + self.eps)
        if self.weight is None or self.bias is None:
            return weights @ inverse, -(weights @ (mean * inverse))
        if self.affine == "domain":
            scale = weights @ (self.weight * inverse)
            return scale, weights @ (self.bias - self.weight * mean * inverse)
        scale = self.weight * (weights @ inverse)
        return scale, self.bias - self.weight * (weights @ (mean * inverse))

    def extra_repr(self) -> str:
        """Text that `print(layer)` shows."""
        return (
            f"{self.features}, domains={self.domains}, eps={self.eps}, "
            f"momentum={self.momentum}, affine={self.affine!r}"
        )


class DomainBatchNorm1d(DomainBatchNorm):
    """Domain-dependent batch normalisation of [N, C] or [N, C, L]."""

    allowed_dims = (2, 3)


class DomainBatchNorm2d(DomainBatchNorm):
    """Domain-dependent batch normalisation of [N, C, H, W]."""

    allowed_dims = (4,)


class DomainBatchNormAct2d(DomainBatchNorm2d):
    """`DomainBatchNorm2d` followed by the drop and activation layers of timm's fused layer."""

    drop: nn.Module
    act: nn.Module

    def forward(self, x: Tensor) -> Tensor:
        """Normalise, then activate."""
        return self.act(self.drop(super().forward(x)))
