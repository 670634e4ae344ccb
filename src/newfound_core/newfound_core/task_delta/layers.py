# SPDX-License-Identifier: Apache-2.0
"""Masks in the layers of a network: put in, looked at, and which layers have them.

The mask is a parametrisation of the layer's weight (`torch.nn.utils.parametrize`), so that every
kind of convolution, depthwise and padded ones included, computes as it did.
"""

from collections.abc import Iterator, Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from newfound_core.task_delta.config import TaskDeltaConfig
from newfound_core.task_delta.transform import dead_channels, masked

Layer = nn.Conv1d | nn.Conv2d | nn.Linear


class AffineMask(nn.Module):
    """Weights of one layer to those of the task; `scores` are the real numbers behind the bits."""

    learned: Tensor  # [4], which of k are trained
    unit: Tensor  # [4]
    dead: Tensor

    def __init__(
        self, weight: Tensor, config: TaskDeltaConfig, lr: float, learned: tuple[bool, ...]
    ) -> None:
        super().__init__()
        low, high = (lr * value for value in config.margin)
        self.gradient = config.mask_gradient
        self.scores = nn.Parameter(torch.empty_like(weight).uniform_(low, high))
        k = weight.new_tensor(config.rules.start)
        if config.variant == "channelwise":
            k = k[:, None].repeat(1, len(weight))
        self.k = nn.Parameter(k)
        std = 1.0
        if config.unit == "relative" and weight.numel() > 1:
            std = float(weight.std()) or 1.0  # weights that are all alike give no unit
        shape = (4,) + (1,) * (k.ndim - 1)
        unit = weight.new_tensor([1, std, std, 1]).reshape(shape)
        self.register_buffer("unit", unit, persistent=False)
        chosen = torch.tensor(learned, device=weight.device).reshape(shape)
        self.register_buffer("learned", chosen, persistent=False)
        dead = dead_channels(weight) & config.keep_dead
        self.register_buffer("dead", dead, persistent=False)
        self._any_dead = bool(dead.any())

    @property
    def bits(self) -> Tensor:
        """The mask, bool, shaped like the weights."""
        return self.scores.detach() >= 0

    def scaled_k(self) -> Tensor:
        """k in units of the weights."""
        return torch.where(self.learned, self.k, self.k.detach()) * self.unit

    def forward(self, weight: Tensor) -> Tensor:
        """The weights of the task."""
        new = masked(weight, self.scores, self.scaled_k(), self.gradient)
        return torch.where(self.dead, weight, new) if self._any_dead else new


def convert(backbone: nn.Module, config: TaskDeltaConfig, lr: float) -> nn.Module:
    """Freeze a network but for what the variant lets a task change; in place.

    Every convolution and fully connected layer gets a mask if the variant has them. `lr` is the
    rate of the optimiser that will move the scores.
    """
    backbone.requires_grad_(False)
    if config.rules.masks:
        _put_masks(backbone, config, lr)
    if config.rules.norm:
        for _, norm in norm_layers(backbone):
            norm.requires_grad_(True)
    return backbone


def _put_masks(backbone: nn.Module, config: TaskDeltaConfig, lr: float) -> None:
    kinds = Layer | nn.BatchNorm1d | nn.BatchNorm2d
    modules = [m for m in backbone.modules() if isinstance(m, kinds)]
    norms = [i for i, m in enumerate(modules) if not isinstance(m, Layer)]
    for index, layer in enumerate(modules):
        if isinstance(layer, Layer):
            # Batch normalisation takes any scale out; where none follows k0 is learned as well.
            first, *others = config.rules.learned
            free = any(others) and not any(norm > index for norm in norms)
            mask = AffineMask(layer.weight.detach(), config, lr, (first or free, *others))
            parametrize.register_parametrization(layer, "weight", mask)
            layer.parametrizations.weight.original.requires_grad_(False)  # type: ignore[union-attr]


def masks_of(backbone: nn.Module) -> Iterator[tuple[str, AffineMask]]:
    """The masks by the names of their layers."""
    for name, module in backbone.named_modules():
        if isinstance(module, AffineMask):
            yield name.removesuffix(".parametrizations.weight.0"), module


def norm_layers(backbone: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Batch normalisation by name."""
    for name, module in backbone.named_modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            yield name, module


def set_training_mode(model: nn.Module, *, own_statistics: bool) -> None:
    """Training mode, in which normalisation keeps statistics that are not the task's own."""
    model.train()
    if not own_statistics:
        for _, norm in norm_layers(model):
            norm.eval()


def base_tensors(backbone: nn.Module) -> dict[str, Tensor]:
    """State of a network with masks, under the names of the network without them.

    Weights are those of the base; normalisation is the task's.
    """
    middle = ".parametrizations.weight."
    return {
        name.replace(f"{middle}original", ".weight"): tensor
        for name, tensor in backbone.state_dict().items()
        if f"{middle}0." not in name
    }


@torch.no_grad()
def start_from_fine_tuned(backbone: nn.Module, fine_tuned: Mapping[str, Tensor]) -> None:
    """Set masks and k of a converted network to the signs and mean size of a fine-tuning's step.

    M = [D > 0], k2 = 2 mean |D|, k1 = -mean |D| for D = W_fine_tuned - W; normalisation is taken
    over. The masks are not trained from there, only k and normalisation are.
    """
    own = base_tensors(backbone)
    for layer, mask in masks_of(backbone):
        step = fine_tuned[f"{layer}.weight"].to(mask.scores) - own[f"{layer}.weight"]
        size = step.abs().mean() / mask.unit[1]
        mask.scores.copy_(torch.where(step > 0, 1.0, -1.0)).requires_grad_(False)
        mask.k[1], mask.k[2] = -size, 2 * size
    for name, norm in norm_layers(backbone):
        for part, tensor in norm.state_dict().items():
            tensor.copy_(fine_tuned[f"{name}.{part}"])


@torch.no_grad()
def mask_statistics(backbone: nn.Module) -> dict[str, float]:
    """For logs: share of bits that are set, mean |k|, and rows of which no bit is set."""
    masks = [mask for _, mask in masks_of(backbone)]
    if not masks:
        return {}
    bits = [mask.bits.flatten(1) for mask in masks]
    count = sum(b.numel() for b in bits)
    mean_k = torch.stack([mask.scaled_k().abs().reshape(4, -1).mean(1) for mask in masks]).mean(0)
    return {
        "bits_set": cast(float, sum(float(b.sum()) for b in bits) / count),
        "empty_rows": float(sum(int((~b.any(1)).sum()) for b in bits)),
        **{f"k{i}": float(value) for i, value in enumerate(mean_k)},
    }
