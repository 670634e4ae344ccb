# SPDX-License-Identifier: Apache-2.0
"""The normalisation statistics of a whole network as two flat vectors.

A row is one channel of one domain of one layer; plain batch normalisation has one domain.
Flat vectors make merging, mixing, saving and comparing statistics one operation each. They may
carry the scale and bias of a domain (full AdaGraph); without, those of the source serve.

Drift from the source is the symmetric KL divergence of the channels' Gaussians. On disk adapted
statistics are one safetensors file that fits one network only.
"""

import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from newfound_core.errors import BackboneError, CheckpointError, ConfigError, DataError
from newfound_core.normalization import DomainBatchNorm
from newfound_core.onda.config import OndaConfig, adapting_layers
from newfound_core.storage import write_bytes


@dataclass(frozen=True)
class Statistics:
    """Mean and variance of every row, and what comes after normalising by them."""

    mean: Tensor  # [rows]
    variance: Tensor  # [rows]
    scale: Tensor | None = None  # [rows]; None: the source's, as of bias
    bias: Tensor | None = None

    def lerp(self, other: "Statistics", share: Tensor | float) -> "Statistics":
        """(1 - share) self + share other, with scale and bias of the other if it has them."""
        return Statistics(
            self.mean + share * (other.mean - self.mean),
            self.variance + share * (other.variance - self.variance),
            self.scale if other.scale is None else other.scale,
            self.bias if other.bias is None else other.bias,
        )

    def to(self, like: Tensor) -> "Statistics":
        """The same with the type and device of another tensor."""
        return Statistics(**{name: t.to(like) for name, t in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """All that there are, by name."""
        return {name: t for name, t in vars(self).items() if t is not None}


class NormalizationLayers:
    """The batch normalisation layers of a network, in order, and how rows map to them.

    `layers` are those that follow the stream, as in `OndaConfig`; the rows of the others are
    part of the statistics, but never move.
    """

    def __init__(self, network: nn.Module, layers: str = "all") -> None:
        self.network = network
        found = [(name, m) for name, m in network.named_modules() if _has_statistics(m)]
        if not found:
            raise BackboneError(
                f"{type(network).__name__} has no batch normalisation with running statistics, "
                "so there is nothing to adapt: choose a backbone with BN layers"
            )
        self.names = [name for name, _ in found]
        self.layers = getattr(network, "adaptive_layers", "all") if layers == "auto" else layers
        self.adapting = adapting_layers(self.layers, len(found))
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
        self._source_affine: tuple[Tensor, Tensor] | None = None  # while another one serves

    def _row_channel(self) -> Tensor:
        """Place of each row in a vector with one value per layer and channel."""
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

    def of_layers(self, values: float | Sequence[float]) -> Tensor:
        """One number for all rows, or that of its layer for each row, [rows]."""
        each = torch.tensor(values, device=self.eps.device, dtype=self.eps.dtype)
        if each.ndim == 0:
            return each
        if each.shape != (len(self.names),):
            raise ConfigError(
                f"expected one number, or one for each of the {len(self.names)} normalisation "
                f"layers, got {len(each)}"
            )
        return each[self.row_layer]

    def read(self) -> Statistics:
        """A copy of the statistics that the network uses now."""
        return Statistics(
            torch.cat([_mean(m).detach().reshape(-1) for m in self.modules]),
            torch.cat([_variance(m).detach().reshape(-1) for m in self.modules]),
            *(() if self._source_affine is None else self._read_affine()),
        )

    @property
    def has_affine(self) -> bool:
        """Whether each row has a scale and a bias of its own, as in plain layers."""
        return self.plain and all(isinstance(m.weight, Tensor) for m in self.modules)

    def source_affine(self) -> tuple[Tensor, Tensor]:
        """Scale and bias of every row, [rows] each, as the network was given."""
        return self._read_affine() if self._source_affine is None else self._source_affine

    def _read_affine(self) -> tuple[Tensor, Tensor]:
        scale, bias = (
            torch.cat([_values(m, name) for m in self.modules]) for name in ("weight", "bias")
        )
        return scale, bias

    def _write_affine(self, scale: Tensor, bias: Tensor) -> None:
        for index, module in enumerate(self.modules):
            rows = self.rows(index)
            _values(module, "weight").copy_(scale[rows])
            _values(module, "bias").copy_(bias[rows])

    @torch.no_grad()
    def write(self, statistics: Statistics) -> None:
        """Let the network use `statistics` from its next pass on."""
        if statistics.scale is not None and statistics.bias is not None:
            self._source_affine = self.source_affine()
            self._write_affine(statistics.scale, statistics.bias)
        elif self._source_affine is not None:
            self._write_affine(*self._source_affine)
            self._source_affine = None
        start = 0
        for module in self.modules:
            mean, variance = _mean(module), _variance(module)
            rows = slice(start, start + mean.numel())
            mean.copy_(statistics.mean[rows].view_as(mean))
            variance.copy_(statistics.variance[rows].view_as(variance))
            start = rows.stop

    def distance(self, statistics: Statistics, mean: Tensor) -> float:
        """Distance of other means from these statistics, 0 to 1, over the rows that adapt.

        d^2 / (variance + d^2) is bounded: a channel that hardly varies cannot outweigh all others.
        """
        rows = slice(self.rows(self.adapting[0]).start, None)
        squared = (self.to_rows(mean) - statistics.mean)[rows].square_()
        return float((squared / (statistics.variance[rows] + squared).clamp_(min=1e-12)).mean())

    def check(self, statistics: Statistics) -> None:
        """A DataError unless these are statistics of this network."""
        rows, tensors = len(self.row_layer), statistics.tensors()
        if any(t.shape != (rows,) for t in tensors.values()) or not _valid(tensors):
            raise DataError(
                f"expected {rows} finite means and variances that are not negative, got shapes "
                f"{[list(t.shape) for t in tensors.values()]}: they belong to another network"
            )
        if (statistics.scale is None) != (statistics.bias is None) or (
            statistics.scale is not None and not self.has_affine
        ):
            raise DataError("this network takes no scale and bias of a domain, or one is missing")

    def fingerprint(self, source: Statistics) -> str:
        """Digest of the network's layers, parameters and source statistics."""
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


def _values(module: nn.Module, name: str) -> Tensor:
    """A layer's weight or bias."""
    values = getattr(module, name)
    assert isinstance(values, Tensor)
    return values.detach().view(-1)


def twin_of(network: nn.Module) -> nn.Module:
    """A copy that shares all parameters but scale and bias of the normalisation layers."""
    own = {id(p) for m in network.modules() if _has_statistics(m) for p in m.parameters()}
    shared: dict[int, Any] = {id(p): p for p in network.parameters() if id(p) not in own}
    return copy.deepcopy(network, shared)


def _mean(module: nn.Module) -> Tensor:
    assert isinstance(module.running_mean, Tensor)
    return module.running_mean


def _variance(module: nn.Module) -> Tensor:
    assert isinstance(module.running_var, Tensor)
    return module.running_var


@dataclass(frozen=True)
class Drift:
    """Symmetric KL divergence between source and current Gaussians of adapting layers, nats."""

    per_layer: dict[str, float]  # averaged over the channels (and domains) of the layer

    @property
    def mean(self) -> float:
        """Over the layers."""
        return sum(self.per_layer.values()) / len(self.per_layer)

    @property
    def maximum(self) -> float:
        """Over the layers."""
        return max(self.per_layer.values())


def measure_drift(layers: NormalizationLayers, source: Statistics, now: Statistics) -> Drift:
    """KL(source, now) + KL(now, source), with the variances that the layers divide by.

    For Gaussians the logarithms cancel: ((v0 + d^2) / v1 + (v1 + d^2) / v0) / 2 - 1.
    """
    v0, v1 = source.variance.double() + layers.eps, now.variance.double() + layers.eps
    square = (source.mean.double() - now.mean.double()) ** 2
    divergence = ((v0 + square) / v1 + (v1 + square) / v0) / 2 - 1
    sums = torch.zeros(len(layers.names), dtype=torch.float64, device=divergence.device)
    sums.index_add_(0, layers.row_layer, divergence)
    averages = (sums / torch.bincount(layers.row_layer)).tolist()
    return Drift({layers.names[index]: averages[index] for index in layers.adapting})


FORMAT = "newfound onda state 2"


def write_state(
    path: Path,
    layers: NormalizationLayers,
    online: Statistics,
    *,
    counters: dict[str, int],
    fingerprint: str,
    config: OndaConfig,
) -> None:
    """Write the file in one step: a crash leaves the old one or the new one, never half."""
    tensors = {name: tensor.cpu() for name, tensor in online.tensors().items()}
    metadata = {
        "format": FORMAT,
        "network": fingerprint,
        "layers": f"last:{len(layers.adapting)}",
        "counters": json.dumps(counters),
        "config": json.dumps(asdict(config)),  # for the reader; statistics fit any options
    }
    write_bytes(path, save(tensors, metadata))


def read_state(
    path: Path, layers: NormalizationLayers, fingerprint: str
) -> tuple[Statistics, dict[str, int]]:
    """The statistics and counters of a file, or a `CheckpointError` that says what is wrong."""
    tensors, metadata = _open(path)
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {metadata.get('format')!r}, expected {FORMAT!r}: it was not "
            "saved by Onda.save, or by another version of newfound"
        )
    if metadata.get("network") != fingerprint:
        raise CheckpointError(
            f"{path} belongs to another network (its fingerprint differs): adapted statistics "
            "fit only the parameters and source statistics they were made with. Delete the file "
            "to start from the source, or load the checkpoint it was saved with"
        )
    adapting = f"last:{len(layers.adapting)}"
    if metadata.get("layers") != adapting:
        raise CheckpointError(
            f"{path} was saved with layers {metadata.get('layers')} adapting, now it is "
            f"{adapting}: statistics fit only the layers before them that they were made with. "
            "Set `layers` to what it was, or delete the file to start from the source"
        )
    if set(tensors) not in ({"mean", "variance"}, {"mean", "variance", "scale", "bias"}):
        raise CheckpointError(f"{path} holds {sorted(tensors)}, expected mean and variance")
    try:
        layers.check(found := Statistics(**tensors))
    except DataError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    return found, _counters(path, metadata)


def _open(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read as adapted statistics: {error}") from error


def _valid(tensors: dict[str, Tensor]) -> bool:
    finite = all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())
    return finite and bool((tensors["variance"] >= 0).all())


def _counters(path: Path, metadata: dict[str, str]) -> dict[str, int]:
    try:
        counters = json.loads(metadata["counters"])
        return {str(name): int(value) for name, value in counters.items()}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} has damaged counters in its metadata") from error
