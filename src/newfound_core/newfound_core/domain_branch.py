# SPDX-License-Identifier: Apache-2.0
"""The domain branch: to which of the source domains an image belongs, read from early features.

f_D of M. Mancini, S. Rota Bulò, B. Caputo, E. Ricci, "Robust Place Categorization With Deep Domain
Generalization", RA-L 2018, arXiv:1805.12048; thesis 2.4.3 and 2.5.2, where w of equation 2.10 is

    w = softmax(f_D(x))

Softened at test time (ours; the branch is overconfident outside of its sources, and the blend is
that of BSF, equation 2.14): w = (1 - a) softmax(f_D(x) / T) + a / k.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.backbones import Backbone
from newfound_core.errors import ConfigError


class DomainBranch(nn.Module):
    """Early features [N, channels, h, w] to domain logits [N, domains].

    One residual block like ResNet's conv2, mean over the map, linear layer. Behind a deep cut
    (AlexNet's pool5) the block is left out, as in the thesis. Since the map is averaged in
    the end anyway, the block sees every `reduction`-th row and column only: on all of the map
    behind an EfficientNet stem it would cost half as much as the whole network, and pooling
    the map more than the block itself.
    """

    def __init__(
        self, channels: int, domains: int, *, block: bool = True, reduction: int = 4
    ) -> None:
        super().__init__()
        if domains < 1 or reduction < 1:
            raise ConfigError(f"need domains and reduction >= 1, got {domains} and {reduction}")
        self.reduction = reduction if block else 1
        self.block = ResidualBlock(channels) if block else nn.Identity()
        self.linear = nn.Linear(channels, domains)

    @classmethod
    def of(cls, backbone: Backbone, domains: int, reduction: int = 4) -> "DomainBranch":
        """The branch that fits a backbone."""
        shallow = backbone.branch_point == 0
        return cls(backbone.early_channels, domains, block=shallow, reduction=reduction)

    def forward(self, early: Tensor) -> Tensor:
        """Domain logits."""
        step = self.reduction
        return self.linear(self.block(early[:, :, ::step, ::step]).mean((2, 3)))


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions around an identity. Its normalisation knows no domains."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape as `x`."""
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(x + self.norm2(self.conv2(y)))


def assignment_from(logits: Tensor, temperature: float = 1.0, smoothing: float = 0.0) -> Tensor:
    """Domain weights w = (1 - a) softmax(logits / T) + a / k, each row summing to one.

    The branch is overconfident outside of its sources: a temperature T above 1 or a blend a
    above 0 softens it.
    """
    weights = (logits / temperature).softmax(-1)
    return weights if smoothing == 0 else weights * (1 - smoothing) + smoothing / logits.shape[-1]


def assignment_entropies(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Entropy of the mean assignment of a batch, and mean entropy of the assignments.

    mDA's regularisers: the first large (all domains are used), the second small (each image
    belongs to one).
    """
    weights = logits.softmax(-1)
    single = -(weights * logits.log_softmax(-1)).sum(-1).mean()
    return torch.special.entr(weights.mean(0)).sum(), single


def check_softening(temperature: float, smoothing: float) -> None:
    """A `ConfigError` unless the two options of `assignment_from` make sense."""
    if not temperature > 0:
        raise ConfigError(f"assignment_temperature must be positive, got {temperature}")
    if not 0 <= smoothing <= 1:
        raise ConfigError(f"assignment_smoothing must be in [0, 1], got {smoothing}")
