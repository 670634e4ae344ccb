# SPDX-License-Identifier: Apache-2.0
"""The affine transformation of binary masks and its gradients.

    W~ = k0 W + k1 + k2 M + k3 (W ∘ M),      M = [r >= 0]

    dL/dr  = dL/dW~ ∘ (k2 + k3 W) ∘ h'(r),   h(r) = r or sigmoid(r)
    dL/dk0 = Σ dL/dW~ W      dL/dk1 = Σ dL/dW~      dL/dk2 = Σ M dL/dW~      dL/dk3 = Σ M W dL/dW~

A bit chooses between two affine maps of the old weight, the same two for a whole layer (k of shape
[4]) or for an output channel (k of shape [4, out]).
"""

from typing import Any

import torch
from torch import Tensor

from newfound_core.task_delta.config import MaskGradient

DEAD = 1e-6  # a channel without a weight above this carries nothing


def transformed(weight: Tensor, bits: Tensor, k: Tensor) -> Tensor:
    """Weights W~ for a mask of bits: what is trained and what is served, to the last bit."""
    k0, k1, k2, k3 = _by_channel(k, weight.ndim)
    return torch.where(bits, weight * (k0 + k3) + (k1 + k2), weight * k0 + k1)


def masked(weight: Tensor, scores: Tensor, k: Tensor, gradient: MaskGradient) -> Tensor:
    """The same for the bits of real scores, with the gradients above; W itself gets none."""
    return _Masked.apply(weight, scores, k, gradient)


def dead_channels(weight: Tensor) -> Tensor:
    """Whether each output channel is dead, bool [out, 1, …]."""
    return weight.abs().amax(tuple(range(1, weight.ndim)), keepdim=True) <= DEAD


class _Masked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, scores: Tensor, k: Tensor, gradient: MaskGradient
    ) -> Tensor:
        bits = scores >= 0
        ctx.save_for_backward(weight, scores, k, bits)
        ctx.gradient = gradient
        return transformed(weight, bits, k)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None, None]:
        weight, scores, k, bits = ctx.saved_tensors
        of_scores, of_k = None, None
        if ctx.needs_input_grad[1]:
            _, _, k2, k3 = _by_channel(k, weight.ndim)
            of_scores = grad * (weight * k3 + k2)
            if ctx.gradient == "sigmoid":
                soft = scores.sigmoid()
                of_scores = of_scores * soft * (1 - soft)
        if ctx.needs_input_grad[2]:
            with_weight, on = grad * weight, bits.to(grad.dtype)
            terms = (with_weight, grad, grad * on, with_weight * on)
            rest = tuple(range(1 if k.ndim == 2 else 0, weight.ndim))
            of_k = torch.stack([term.sum(rest) for term in terms])
        return None, of_scores, of_k, None


def _by_channel(k: Tensor, dimensions: int) -> Tensor:
    """k as [4, 1 or out, 1, …], to multiply weights with."""
    return k.reshape(4, -1, *(1,) * (dimensions - 1))
