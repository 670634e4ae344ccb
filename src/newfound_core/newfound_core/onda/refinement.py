# SPDX-License-Identifier: Apache-2.0
"""Refinement of scale and bias at run time: the last part of full AdaGraph.

M. Mancini et al., "AdaGraph", CVPR 2019, arXiv:1903.07062; the thesis's chapter on predictive
adaptation. With every update of the statistics, one step of Adam on the mean entropy of the
frames' predictions,

    L = -1/n sum_i sum_c p_ic log p_ic,

which are made as in training, with the frames' own statistics. The thesis moves the parameters of
all nodes that the present domain is composed of; here it is the present domain's own ones that
move, so the graph stays as it was made. For positive weights the first step is the same.

Entropy falls fastest where every frame is of one class. A step is left out while the mean
prediction of the frames is itself too certain: below half of the largest possible entropy.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from newfound_core.onda.statistics import NormalizationLayers, Statistics

_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


class Refinement:
    """Adam on the scale and bias of the rows of one network."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.skipped = 0  # steps left out
        self.restart()

    def restart(self) -> None:
        """Forget the course of the gradient: another domain begins."""
        self._steps = 0
        self._moments: tuple[Tensor, Tensor] | None = None

    def refine(self, layers: NormalizationLayers, now: Statistics, logits: Tensor) -> Statistics:
        """The statistics with scale and bias one step on; `logits` were made with a gradient."""
        if is_one_sided(logits):
            self.skipped += 1
            return now
        modules = [layers.modules[index] for index in layers.adapting]
        parameters = [p for m in modules for p in (m.weight, m.bias) if isinstance(p, Tensor)]
        with torch.enable_grad():
            loss = mean_entropy(logits)
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        gradient = now.mean.new_zeros(2, len(now.mean))
        for place, index in enumerate(layers.adapting):
            for row in (0, 1):
                found = gradients[2 * place + row]
                if found is not None:
                    gradient[row, layers.rows(index)] = found
        if not bool(torch.isfinite(gradient).all()):
            return now
        moved = torch.stack(self._affine(layers, now)) - self._step(gradient)
        return replace(now, scale=moved[0], bias=moved[1])

    @staticmethod
    def _affine(layers: NormalizationLayers, now: Statistics) -> tuple[Tensor, Tensor]:
        if now.scale is None or now.bias is None:
            return layers.source_affine()
        return now.scale, now.bias

    def _step(self, gradient: Tensor) -> Tensor:
        """What Adam subtracts."""
        first, second = self._moments or (torch.zeros_like(gradient), torch.zeros_like(gradient))
        first = first.lerp(gradient, 1 - _BETAS[0])
        second = second.lerp(gradient.square(), 1 - _BETAS[1])
        self._moments, self._steps = (first, second), self._steps + 1
        corrected = [m / (1 - b**self._steps) for m, b in zip(self._moments, _BETAS, strict=True)]
        return self.rate * corrected[0] / (corrected[1].sqrt() + _EPSILON)


def mean_entropy(logits: Tensor) -> Tensor:
    """Mean entropy of the softmax of each row, in nats."""
    log = logits.log_softmax(-1)
    return -(log.exp() * log).sum(-1).mean()


def is_one_sided(logits: Tensor) -> bool:
    """Whether the mean prediction has less than half of the largest possible entropy."""
    mean = logits.detach().double().softmax(-1).mean(0)
    return float(torch.special.entr(mean).sum()) < math.log(logits.shape[1]) / 2
