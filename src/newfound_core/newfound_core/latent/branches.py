# SPDX-License-Identifier: Apache-2.0
"""Options of mDA, and the branches that assign an image to the domains of its side."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from newfound_core.backbones import Backbone
from newfound_core.domain_branch import DomainBranch
from newfound_core.errors import ConfigError
from newfound_core.stem_clusters import Clusters, stem_statistics

Side = Literal["source", "target"]
UNKNOWN = -1  # the domain label of an image of which it is not known


@dataclass(frozen=True)
class LatentConfig:
    """Domains of each side, how images are assigned to them, and weights of the loss."""

    source_domains: int = 1  # k_s; 0: dropped, the model serves target images only
    target_domains: int = 2  # k_t
    # branch: learned with the network; centres: the nearest cluster of stem statistics.
    assignment: Literal["branch", "centres"] = "branch"
    target_entropy_weight: float = 0.1  # lambda_C
    certainty_weight: float = 0.1  # lambda_E: each image in one domain
    balance_weight: float = 0.1  # lambda_B: all domains used alike
    domain_loss_weight: float = 0.5  # lambda_D, where domains of source images are known
    # Batch normalisation behind the domain logits (thesis, several targets): makes all domains
    # equally large in a batch, whatever the footage.
    branch_logit_norm: bool = False
    branch_reduction: int = 4  # step of the branch's grid; the thesis has 1 on ResNet

    def __post_init__(self) -> None:
        if self.source_domains < 0 or self.target_domains < 1:
            raise ConfigError(
                f"need at least 1 target domain and no negative number of source domains, got "
                f"{self.target_domains} and {self.source_domains}"
            )
        if self.assignment not in ("branch", "centres"):
            raise ConfigError(f"assignment must be branch or centres, got {self.assignment!r}")
        for name in ("target_entropy", "certainty", "balance", "domain_loss"):
            value = getattr(self, f"{name}_weight")
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name}_weight must not be negative or infinite, got {value}")

    @property
    def domains(self) -> int:
        """Domains of both sides."""
        return self.source_domains + self.target_domains

    def columns(self, side: Side) -> slice:
        """Columns of a side in an assignment: source domains first."""
        first = slice(0, self.source_domains)
        return first if side == "source" else slice(self.source_domains, self.domains)


class SideBranch(nn.Module):
    """The domain branch of one side, with the normalisation of its logits where asked for."""

    def __init__(self, backbone: Backbone, domains: int, config: LatentConfig) -> None:
        super().__init__()
        self.branch = DomainBranch.of(backbone, domains, config.branch_reduction)
        self.norm = nn.BatchNorm1d(domains) if config.branch_logit_norm else nn.Identity()

    def forward(self, early: Tensor) -> Tensor:
        """Domain logits."""
        return self.norm(self.branch(early))


class CentreBranch(nn.Module):
    """Domain logits by distance to the centres of clusters: -|z - c|² / (2 s²).

    Their softmax is the posterior of a mixture of equal round Gaussians: one-hot but half-way
    between two domains.
    """

    centres: Tensor
    mean: Tensor
    deviation: Tensor
    variance: Tensor

    def __init__(self, channels: int, domains: int) -> None:
        super().__init__()
        self.register_buffer("centres", torch.zeros(domains, 2 * channels))
        self.register_buffer("mean", torch.zeros(2 * channels))
        self.register_buffer("deviation", torch.ones(2 * channels))
        self.register_buffer("variance", torch.ones(()))

    def take(self, clusters: Clusters) -> None:
        """Assign images to these clusters from now on."""
        self.centres.copy_(clusters.centres)
        self.mean.copy_(clusters.mean)
        self.deviation.copy_(clusters.deviation)
        self.variance.fill_(clusters.variance)

    def forward(self, early: Tensor) -> Tensor:
        """Domain logits."""
        points = (stem_statistics(early) - self.mean) / self.deviation
        squares = (points[:, None] - self.centres).square().sum(-1)
        # The nearest is zero: large numbers would lose digits in half precision.
        return (squares.amin(1, keepdim=True) - squares) / (2 * self.variance)


def build_branches(backbone: Backbone, config: LatentConfig) -> dict[str, nn.Module]:
    """The branch of each side that has more than one domain."""
    made: dict[str, nn.Module] = {}
    if config.source_domains > 1:
        made["source"] = SideBranch(backbone, config.source_domains, config)
    if config.target_domains > 1 and config.assignment == "centres":
        made["target"] = CentreBranch(backbone.early_channels, config.target_domains)
    elif config.target_domains > 1:
        made["target"] = SideBranch(backbone, config.target_domains, config)
    return made
