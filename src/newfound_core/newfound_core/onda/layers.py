# SPDX-License-Identifier: Apache-2.0
"""The normalisation statistics of a whole network as two flat vectors.

A row is one channel of one domain of one layer; plain batch normalisation has one domain.
Flat vectors make merging, mixing, saving and comparing statistics one operation each.
"""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from newfound_core.errors import BackboneError
from newfound_core.normalization import DomainBatchNorm


@dataclass(frozen=True)
class Statistics:
    """Mean and variance of every row."""

    mean: Tensor  # [rows]
    variance: Tensor  # [rows]

    def lerp(self, other: "Statistics", share: Tensor | float) -> "Statistics":
        """(1 - share) self + share other."""
        return Statistics(
            self.mean + share * (other.mean - self.mean),
            self.variance + share * (other.variance - self.variance),
        )


class NormalizationLayers:
    """The batch normalisation layers of a network, in order, and how rows map to them."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        found = [(name, m) for name, m in network.named_modules() if _has_statistics(m)]
        if not found:
            raise BackboneError(
                f"{type(network).__name__} has no batch normalisation with running statistics, "
                "so there is nothing to adapt: choose a backbone with BN layers"
            )
        self.names = [name for name, _ in found]
        self.modules = [module for _, module in found]
        self.domains = [getattr(module, "domains", 1) for module in self.modules]
        self.channels = [_mean(module).shape[-1] for module in self.modules]
        device = _mean(self.modules[0]).device
        per_layer = list(zip(self.domains, self.channels, strict=True))
        # A group is one domain of one layer.
        self.row_group = _repeated([c for k, c in per_layer for _ in range(k)]).to(device)
        self.row_layer = _repeated([k * c for k, c in per_layer]).to(device)
        self.group_layer = _repeated(self.domains).to(device)
        self.row_channel = self._row_channel().to(device)
        self.eps = torch.tensor([float(m.eps) for m in self.modules]).to(device)[self.row_layer]
        self.plain = all(k == 1 for k in self.domains)

    def _row_channel(self) -> Tensor:
        """For each row its place in a vector with one value per layer and channel."""
        starts = torch.tensor([0, *self.channels]).cumsum(0)
        pieces = [
            (start + torch.arange(c)).repeat(k)
            for start, c, k in zip(starts[:-1], self.channels, self.domains, strict=True)
        ]
        return torch.cat(pieces)

    def rows(self, index: int) -> slice:
        """The rows of one layer."""
        sizes = [k * c for k, c in zip(self.domains, self.channels, strict=True)]
        start = sum(sizes[:index])
        return slice(start, start + sizes[index])

    def to_rows(self, channels: Tensor) -> Tensor:
        """Repeat values [..., one per layer and channel] for every domain of the layer."""
        return channels if self.plain else channels[..., self.row_channel]

    def per_domain(self, values: dict[int, Tensor | float], like: Tensor) -> Tensor:
        """One value per domain of each layer, [groups]; 0 for the layers not in `values`."""
        parts = [
            torch.as_tensor(values.get(index, 0.0)).to(like).expand(domains)
            for index, domains in enumerate(self.domains)
        ]
        return torch.cat(parts)

    def read(self) -> Statistics:
        """A copy of the statistics that the network uses now."""
        return Statistics(
            torch.cat([_mean(m).detach().reshape(-1) for m in self.modules]),
            torch.cat([_variance(m).detach().reshape(-1) for m in self.modules]),
        )

    @torch.no_grad()
    def write(self, statistics: Statistics) -> None:
        """Let the network use `statistics` from its next pass on."""
        start = 0
        for module in self.modules:
            mean, variance = _mean(module), _variance(module)
            rows = slice(start, start + mean.numel())
            mean.copy_(statistics.mean[rows].view_as(mean))
            variance.copy_(statistics.variance[rows].view_as(variance))
            start = rows.stop

    def fingerprint(self, source: Statistics) -> str:
        """Identifies the network: its layers, its parameters and its source statistics."""
        digest = hashlib.sha256()
        for name, tensor in self.network.named_parameters():
            _digest(digest, name, tensor)
        for name, k, c in zip(self.names, self.domains, self.channels, strict=True):
            digest.update(f"{name} {k} {c};".encode())
        _digest(digest, "mean", source.mean)
        _digest(digest, "variance", source.variance)
        return digest.hexdigest()


def _digest(digest: "hashlib._Hash", name: str, tensor: Tensor) -> None:
    digest.update(f"{name} {tensor.dtype} {list(tensor.shape)};".encode())
    digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)


def _repeated(times: list[int]) -> Tensor:
    """0 times[0] times, 1 times[1] times, and so on."""
    return torch.repeat_interleave(torch.arange(len(times)), torch.tensor(times))


def _has_statistics(module: nn.Module) -> bool:
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, DomainBatchNorm)
    return isinstance(module, kinds) and module.running_mean is not None


def _mean(module: nn.Module) -> Tensor:
    assert isinstance(module.running_mean, Tensor)
    return module.running_mean


def _variance(module: nn.Module) -> Tensor:
    assert isinstance(module.running_var, Tensor)
    return module.running_var
