# SPDX-License-Identifier: Apache-2.0
"""Estimates of the latest frames' statistics, n_t in the thesis: `batch` and `streaming`.

M. Mancini et al., "Kitting in the Wild through Online Domain Adaptation", IROS 2018,
arXiv:1807.01028; thesis 2.6.3 (its equations have no numbers):

    mu^ = 1/n_t sum_i x_i,   var^ = 1/n_t sum_i (x_i - mu^)²

`batch` is the thesis: a second pass of the frames, normalised by their own statistics, on a GPU
beside the frames that are served. `streaming` is ours: statistics gathered while the frames are
predicted, from a sample of the positions of each map, without a second pass or a stored frame.
"""

import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from newfound_core.normalization import DomainBatchNorm
from newfound_core.onda.folding import Folding, logits_of
from newfound_core.onda.refinement import Refinement
from newfound_core.onda.sampling import EngineSamples, FrameSamples
from newfound_core.onda.statistics import NormalizationLayers, Statistics, twin_of


@contextmanager
def aside(device: torch.device) -> Iterator[None]:
    """On CUDA, run what is inside in a stream of its own; when left, it is done. Nothing on a CPU.

    It begins after all that was asked of the device before, so what it reads is there. Since it
    waits for its end, what it read is not given back while it runs, and what it made is whole.
    """
    if device.type != "cuda":
        yield
        return
    stream = _stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        stream.synchronize()


@functools.cache  # torch keeps memory for every stream that was ever used
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # of the lowest priority, as the default stream


@dataclass(frozen=True)
class Estimate:
    """Statistics of some frames, unbiased, and how much of the frames each row has seen."""

    statistics: Statistics
    # [rows] in 0 to 1: 1 for plain layers; the mean assignment of the frames for a domain; 0 for
    # a layer that did not run. A row moves by momentum times share: a domain that the frames
    # do not belong to stays where it is.
    share: Tensor

    def is_finite(self) -> bool:
        """Whether every row that would move is a number."""
        rows = self.share > 0
        moving = self.statistics.mean[rows], self.statistics.variance[rows]
        return all(bool(torch.isfinite(t).all()) for t in moving)


class Estimator(Protocol):
    """Contract of estimators: frames become samples, which a memory can keep, and an estimate."""

    listens: bool  # whether it must see what the layers see in a pass

    def start(self, images: Tensor, observations: Sequence[slice]) -> None:
        """Called before images are predicted, of which some make up an observation each."""

    def finish(self) -> list[Any | None]:
        """Called after it: a sample for each observation, or None if it must not be used."""

    def estimate(self, samples: Sequence[Any], current: Statistics) -> Estimate:
        """Statistics of the frames behind `samples`; may run in another thread."""

    def serve_with(self, folded: Folding) -> None:
        """Called once if frames are predicted by a folded network from now on."""

    def close(self) -> None:
        """Leave the network as it was found."""


@dataclass(frozen=True)
class PendingUpdate:
    """Frames that are due to be learned from. `estimate` may run in any thread."""

    estimator: Estimator
    samples: Sequence[Any]
    current: Statistics
    generation: int
    compare: Callable[[], Sequence[Any]]  # with the source

    def estimate(self) -> "ReadyUpdate":
        """The slow part; does not touch the serving network."""
        with aside(self.current.mean.device):
            estimate = self.estimator.estimate(self.samples, self.current)
            return ReadyUpdate(estimate, self.generation, self.compare())


@dataclass(frozen=True)
class ReadyUpdate:
    """An estimate to be applied between two frames."""

    estimate: Estimate
    generation: int
    answers: Sequence[Any]  # of source and adapted network


class BatchEstimator:
    """Estimator that runs frames through a twin whose normalisation works as in training.

    The twin shares the network's parameters but has its own normalisation, so it can run in
    another thread while the network serves. Only its adapting normalisation layers are in
    training mode: dropout and everything else behave as in prediction.
    """

    listens = False

    def __init__(
        self,
        layers: NormalizationLayers,
        refinement: Refinement | None = None,
        logits: Callable[[Any], Tensor] = logits_of,
    ) -> None:
        """With a `refinement` an estimate has scale and bias, too."""
        self._twin = twin_of(layers.network)
        self._layers = NormalizationLayers(self._twin, layers.layers)
        self._refinement, self._logits = refinement, logits
        if refinement is not None:
            for module in self._layers.modules:
                module.requires_grad_(True)
        self._lock = threading.Lock()
        self._kept: list[Tensor] = []
        self._weights: dict[int, Tensor | float] = {}
        for index in self._layers.adapting:
            module = self._layers.modules[index]
            # With momentum 1 the running statistics become those of the batch, unbiased with
            # the layer's own number of values.
            module.training, module.momentum = True, 1.0
            module.register_forward_pre_hook(partial(self._note, index))

    def start(self, images: Tensor, observations: Sequence[slice]) -> None:
        """Keep the images; the caller may reuse their memory."""
        self._kept = [images[part].detach().clone() for part in observations]

    def finish(self) -> list[Any | None]:
        """The images that were kept."""
        kept, self._kept = self._kept, []
        return list(kept)

    def _note(self, index: int, module: nn.Module, inputs: tuple[Any]) -> None:
        self._weights[index] = mean_assignment(module)

    @torch.no_grad()
    def estimate(self, samples: Sequence[Tensor], current: Statistics) -> Estimate:
        """Statistics of the frames in one pass; safe beside passes of the network itself."""
        frames = torch.cat([s for s in samples if s.shape[1:] == samples[-1].shape[1:]])
        if len(frames) < 2:  # the camera has just changed its format
            return Estimate(current, torch.zeros_like(current.mean))
        if frames.dim() == 4:
            # On a CPU, normalisation with batch statistics is several times faster this way.
            frames = frames.contiguous(memory_format=torch.channels_last)
        with self._lock:
            self._layers.write(current)
            self._weights.clear()
            found = self._statistics(frames)
            share = self._layers.per_domain(self._weights, like=current.mean)
            return Estimate(found, share[self._layers.row_group])

    def _statistics(self, frames: Tensor) -> Statistics:
        if self._refinement is None:
            self._twin(frames)
            return self._layers.read()
        rejects = getattr(self._twin, "rejection", None) is not None
        with torch.enable_grad():  # a view that is made without has no way back
            logits = self._logits(self._twin(frames))
            known = logits[:, :-1] if rejects else logits
        return self._refinement.refine(self._layers, self._layers.read(), known)

    def serve_with(self, folded: Folding) -> None:
        """Nothing changes: the twin normalises by itself."""

    def close(self) -> None:
        """Nothing was changed in the network itself."""


@dataclass
class FrameStatistics:
    """Statistics of one frame at the input of every layer."""

    mean: Tensor  # [channels of all layers]
    variance: Tensor  # [channels of all layers], biased
    counts: list[int]  # values per channel, for each layer; 0 if it did not run
    weights: Tensor | None  # [domains of all layers]; None if no layer has several


class StreamingEstimator:
    """Estimator that hooks the inputs of the layers; adds no pass and keeps no frame."""

    listens = True

    def __init__(self, layers: NormalizationLayers, positions_per_frame: int) -> None:
        self._layers, self._positions = layers, positions_per_frame
        self._samples: list[FrameSamples] = []  # one for each observation of a pass
        self._observations: Sequence[slice] = ()
        self._frames = 0  # shifts the grid from frame to frame
        self._weights: list[dict[int, Tensor | float]] = []
        self._folded: Folding | None = None
        self._handles = self._listen_to(layers.modules)

    def _listen_to(self, modules: Sequence[nn.Module]) -> list[RemovableHandle]:
        return [
            modules[index].register_forward_pre_hook(partial(self._observe, index))
            for index in self._layers.adapting
        ]

    def serve_with(self, folded: Folding) -> None:
        """Listen to the folded network from now on."""
        self.close()
        self._folded = folded
        self._handles = self._listen_to(folded.observed)

    def start(self, images: Tensor, observations: Sequence[slice]) -> None:
        """Listen to the next pass."""
        while len(self._samples) < len(observations):
            self._samples.append(FrameSamples(self._layers.channels, self._positions))
        for samples in self._samples:
            samples.begin()
        self._weights = [{} for _ in observations]
        self._observations = observations

    def _observe(self, index: int, module: nn.Module, inputs: tuple[Any]) -> None:
        for number, part in enumerate(self._observations):
            self._samples[number].take(index, inputs[0][part], self._frames + number + 1)
            if not self._layers.plain:
                self._weights[number][index] = mean_assignment(module, part)

    @torch.no_grad()
    def finish(self) -> list[Any | None]:
        """Statistics of each observation of the pass, None if some of them are not finite."""
        parts, self._observations = self._observations, ()
        self._frames += len(parts)
        return [self._finished(number, part) for number, part in enumerate(parts)]

    def _finished(self, number: int, part: slice) -> FrameStatistics | None:
        moments = self._folded.moments if self._folded is not None else None
        samples: FrameSamples | EngineSamples = self._samples[number]
        if moments is not None:
            samples = EngineSamples(self._layers, moments, part)
        found = samples.statistics()
        if found is None:
            return None
        mean, variance = found
        if not math.isfinite(float(mean.sum() + variance.sum())):
            return None
        if self._folded is not None:
            mean, variance = self._folded.unfold(mean, variance)
        weights = None
        if not self._layers.plain:
            weights = self._layers.per_domain(self._weights[number], like=mean)
        return FrameStatistics(mean, variance, samples.counts(), weights)

    @torch.no_grad()
    def estimate(self, samples: Sequence[FrameStatistics], current: Statistics) -> Estimate:
        """Merge the frames, weighted by their number of values and their assignment."""
        layers, like = self._layers, current.mean
        counts = like.new_tensor([s.counts for s in samples])[:, layers.group_layer]
        assigned = (counts > 0).to(like)  # [frames, groups]
        if not layers.plain:
            assigned = assigned * torch.stack(
                [s.weights for s in samples if s.weights is not None]
            )
        share, correction = merge_weights(counts, assigned)
        running = share[:, (counts > 0).any(0)]
        if (running == running[:, :1]).all():
            share = running[:, :1]  # the usual case, and much cheaper than a weight per row
        else:
            share = share.index_select(1, layers.row_group)
        means = layers.to_rows(torch.stack([s.mean for s in samples]).to(like))
        variances = layers.to_rows(torch.stack([s.variance for s in samples]).to(like))
        mean = (share * means).sum(0)
        # The deviations of the frames' means are added to the variances within the frames.
        spread = (means - mean).square_().add_(variances)
        biased = (share * spread).sum(0)
        variance = biased * correction[layers.row_group]
        moved = assigned.mean(0)[layers.row_group]
        statistics = Statistics(
            torch.where(moved > 0, mean, current.mean),
            torch.where(moved > 0, variance, current.variance),
        )
        return Estimate(statistics, moved)

    def close(self) -> None:
        """Stop listening."""
        for handle in self._handles:
            handle.remove()


def merge_weights(counts: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Weight of each frame, [frames, groups] summing to 1, and n / (n - 1), [groups].

    n is the effective number of values, (sum w)^2 / sum w^2 over all values, which is their
    plain number where all weights are 1.
    """
    mass = (counts * weights).sum(0).clamp(min=torch.finfo(counts.dtype).tiny)
    share = counts * weights / mass
    inverse_n = (share * weights / mass).sum(0)
    return share, 1 / (1 - inverse_n).clamp(min=1e-6)


def mean_assignment(module: nn.Module, images: slice = slice(None)) -> Tensor | float:
    """The share of each domain in some images of the pass that runs now."""
    if not isinstance(module, DomainBatchNorm) or module.domains == 1:
        return 1.0
    weights = module.assignment.weights
    assert weights is not None  # the layer itself refuses to run without
    return weights if weights.dim() == 1 else weights[images].mean(0)
