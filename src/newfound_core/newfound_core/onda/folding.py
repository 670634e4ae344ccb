# SPDX-License-Identifier: Apache-2.0
"""The network as it serves: normalisation folded into the layer before it.

    BN(W x + b) = (s W) x + s (b - mean) + beta,   s = gamma / sqrt(variance + eps)

At batch 1 normalisation takes a sixth of a frame's time, although it only scales and shifts.
The folded weights are computed anew whenever the statistics change, some milliseconds each time.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from newfound_core.errors import DataError
from newfound_core.onda.statistics import NormalizationLayers, Statistics


def as_batch(images: Tensor) -> Tensor:
    """One or more images with their batch dimension; anything else is a `DataError`."""
    batch = images[None] if images.dim() in (1, 3) else images
    if batch.dim() not in (2, 4) or len(batch) == 0 or not batch.is_floating_point():
        raise DataError(
            f"expected images, a float tensor [C, H, W] or [N, C, H, W] (or feature vectors), "
            f"got {images.dtype} {list(images.shape)}"
        )
    return batch


def logits_of(output: Any) -> Tensor:
    """The logits in what a network returns: a tensor, or a tuple with a field `logits`."""
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor) or logits.dim() != 2:
        raise DataError(
            "expected the network to return logits [1, classes], or a tuple with such a field "
            f"`logits`, got {type(output).__name__}"
        )
    return logits


def label_and_entropy(logits: Tensor) -> tuple[int, float]:
    """The predicted class, and the prediction's entropy as a share of the largest possible."""
    probabilities = logits.float().softmax(-1)
    entropy = float(torch.special.entr(probabilities).sum())
    return int(probabilities.argmax()), entropy / math.log(max(2, len(logits)))


_FOLDABLE = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
_NORMALIZATION = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
# Rounding through a deep network stays far below; a wrong pair is far above.
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Pair:
    """A normalisation layer and the layer whose output goes into it and nowhere else."""

    index: int  # of the normalisation layer
    before: nn.Module


@dataclass(frozen=True)
class SampledMoments:
    """Mean and biased variance of what layers see in one pass, at some positions of each image."""

    mean: Tensor  # [images, channels of the layers, in their order]
    variance: Tensor  # likewise
    positions: Mapping[int, int]  # of an image, by layer, in their order


class Folding(ABC):
    """How to serve with normalisation folded away: scale and shift of every row.

    Subclasses hold the folded weights, in PyTorch or in another engine, and run them.
    """

    # Of the last pass that was observed; None: the modules `observed` are called instead.
    moments: SampledMoments | None = None
    learn_every = 1  # frames of which one is learned from once the statistics have settled

    def __init__(self, layers: NormalizationLayers, pairs: Sequence[Pair]) -> None:
        self._layers, self.pairs = layers, tuple(pairs)
        zeros = torch.zeros_like(layers.read().mean)
        self._gamma, self._beta, self._bias = zeros.clone(), zeros.clone(), zeros.clone()
        self._folded = torch.zeros_like(zeros, dtype=torch.bool)
        self._shift = zeros  # the biases of the folded layers, side by side
        # Modules that are called with what the network's normalisation layers see.
        self.observed: list[nn.Module] = [nn.Identity() for _ in layers.modules]
        for pair in pairs:
            norm, rows = layers.modules[pair.index], layers.rows(pair.index)
            self._gamma[rows] = _values(norm.weight, 1.0)
            self._beta[rows] = _values(norm.bias, 0.0)
            self._bias[rows] = _values(pair.before.bias, 0.0)
            self._folded[rows] = True
        if layers.has_affine:  # another domain's may serve at the moment
            self._gamma, self._beta = layers.source_affine()

    @abstractmethod
    def run(self, images: Tensor, *, observe: bool) -> Any:
        """What the network returns; to observe fills `moments` or calls the modules `observed`."""

    @abstractmethod
    def _write_weights(self) -> None:
        """Let the next pass use `_scale` times the weights, and `_shift` as biases."""

    @torch.no_grad()
    def refresh(self, statistics: Statistics) -> None:
        """Serve with these statistics from the next pass on."""
        gamma = self._gamma if statistics.scale is None else statistics.scale
        beta = self._beta if statistics.bias is None else statistics.bias
        scale = gamma * (statistics.variance + self._layers.eps).rsqrt()
        self._scale = torch.where(self._folded, scale, 1.0)
        self._offset = torch.where(self._folded, beta - statistics.mean * scale, 0.0)
        self._shift.copy_(self._offset + self._bias * self._scale)
        self._statistics = statistics
        self._write_weights()

    def unfold(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Convert statistics of what `observed` shows to those of the network's own layers.

        Where a layer multiplies by zero its input cannot be seen, nor does it matter: there the
        statistics are taken to be what they were.
        """
        blind = self._scale == 0
        scale = torch.where(blind, 1.0, self._scale).to(mean)
        return (
            torch.where(blind, self._statistics.mean.to(mean), (mean - self._offset) / scale),
            torch.where(blind, self._statistics.variance.to(mean), variance / scale.square()),
        )


class FoldedNetwork(Folding):
    """A twin of the network that shares all tensors but the weights that were folded."""

    def __init__(self, layers: NormalizationLayers, pairs: Sequence[Pair]) -> None:
        super().__init__(layers, pairs)
        network = layers.network
        shared: dict[int, Any] = {id(p): p for p in [*network.parameters(), *network.buffers()]}
        self.network = copy.deepcopy(network, shared)
        self.observed = [self.network.get_submodule(name) for name in layers.names]
        self._weights: list[tuple[slice, Tensor, Tensor]] = []  # rows, original, folded
        names = {module: name for name, module in network.named_modules()}
        for pair in pairs:
            self._fold(pair, names[pair.before])
        self.refresh(layers.read())

    def _fold(self, pair: Pair, name: str) -> None:
        weight, rows = pair.before.weight, self._layers.rows(pair.index)
        assert isinstance(weight, Tensor)
        twin = self.network.get_submodule(name)
        folded = torch.empty_like(weight)
        twin.weight = nn.Parameter(folded, requires_grad=False)
        twin.bias = nn.Parameter(self._shift[rows], requires_grad=False)
        self._weights.append((rows, weight.detach(), folded))
        parent, _, child = self._layers.names[pair.index].rpartition(".")
        self.observed[pair.index] = nn.Identity()
        setattr(self.network.get_submodule(parent), child, self.observed[pair.index])

    def run(self, images: Tensor, *, observe: bool) -> Any:
        """What the network returns; its hooks see every pass, listened to or not."""
        return self.network(images)

    def randomize(self) -> None:
        """Give the folded layers any weights: an exporter merges tensors that are equal."""
        for tensor in (self._shift, *(folded for _, _, folded in self._weights)):
            nn.init.normal_(tensor)

    def _write_weights(self) -> None:
        for rows, weight, folded in self._weights:
            torch.mul(weight, self._scale[rows].view(-1, *[1] * (weight.dim() - 1)), out=folded)


@torch.no_grad()
def fold(layers: NormalizationLayers, frame: Tensor) -> FoldedNetwork | None:
    """The folded twin, if this frame shows that it computes what the network computes."""
    if not layers.plain or frame.dtype not in (torch.float32, torch.float64):
        return None
    pairs = find_pairs(layers, frame)
    if not pairs:
        return None
    folded = FoldedNetwork(layers, pairs)
    return folded if _agrees(folded, layers, frame) else None


def _agrees(folded: FoldedNetwork, layers: NormalizationLayers, frame: Tensor) -> bool:
    """Whether both compute the same, also with statistics far from the present ones.

    A layer whose output is also used elsewhere must not be folded; it shows here.
    """
    present = layers.read()
    far = Statistics(present.mean + present.variance.sqrt() / 2, present.variance * 2)
    try:
        layers.write(far)
        folded.refresh(far)
        expected, found = logits_of(layers.network(frame)), logits_of(folded.network(frame))
    finally:
        layers.write(present)
        folded.refresh(present)
    return bool((found - expected).abs().max() <= _TOLERANCE * expected.abs().max())


def find_pairs(layers: NormalizationLayers, frame: Tensor) -> list[Pair]:
    """The pairs seen in one pass: the very tensor that one layer returns enters the other."""
    made: list[tuple[nn.Module, Tensor]] = []
    entered: list[tuple[int, Tensor]] = []
    handles = [
        module.register_forward_hook(lambda module, _, output: made.append((module, output)))
        for module in layers.network.modules()
        if type(module) in _FOLDABLE
    ]
    handles += [
        module.register_forward_pre_hook(lambda _, x, index=index: entered.append((index, x[0])))
        for index, module in enumerate(layers.modules)
        if type(module) in _NORMALIZATION
    ]
    try:
        layers.network(frame)
    finally:
        for handle in handles:
            handle.remove()
    times = Counter(module for module, _ in made) + Counter(index for index, _ in entered)
    pairs = [Pair(index, m) for index, x in entered for m, output in made if output is x]
    return [p for p in pairs if times[p.index] == times[p.before] == 1 and _fits(layers, p)]


def _fits(layers: NormalizationLayers, pair: Pair) -> bool:
    """Whether the channels of both are the same thing."""
    weight, mean = pair.before.weight, layers.modules[pair.index].running_mean
    assert isinstance(weight, Tensor)
    assert isinstance(mean, Tensor)
    return len(weight) == len(mean) and weight.dtype == mean.dtype


def _values(parameter: object, default: float) -> Tensor | float:
    return parameter.detach() if isinstance(parameter, Tensor) else default
