# SPDX-License-Identifier: Apache-2.0
"""Estimates of the latest frames' statistics, n_t in the thesis: `batch` and `streaming`.

M. Mancini et al., "Kitting in the Wild through Online Domain Adaptation", IROS 2018,
arXiv:1807.01028; thesis 2.6.3 (its equations have no numbers):

    mu^ = 1/n_t sum_i x_i,   var^ = 1/n_t sum_i (x_i - mu^)²

`batch` is the thesis: a second pass of the frames, normalised by their own statistics, on a GPU
beside the frames that are served. `streaming` is ours: statistics gathered while the frames are
predicted, from a sample of the positions of each map, without a second pass or a stored frame.
"""

import copy
import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from newfound_core.normalization import DomainBatchNorm
from newfound_core.onda.folding import Folding, SampleTable
from newfound_core.onda.statistics import NormalizationLayers, Statistics


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


_EXACT = (torch.float32, torch.float64)


class FrameSamples:
    """The sampled inputs of all layers in one frame; memory is reused from frame to frame."""

    def __init__(self, channels: list[int], positions: int) -> None:
        self._channels = channels
        self._positions = positions
        self._places: dict[int, Tensor] = {}  # by layer: where its sample goes, [..., channels]
        self._tables: list[Tensor] | None = None  # places of equally many values, side by side
        self._order: Tensor | None = None  # from the tables' columns to the order of the layers
        self._seen: set[int] = set()

    def begin(self) -> None:
        """Forget the last frame."""
        self._seen.clear()

    def take(self, index: int, x: Tensor, frame: int) -> None:
        """Sample the input of a layer, which the network may overwrite afterwards."""
        grid = sample_grid(x, self._positions, frame)
        place = self._places.get(index)
        # Half precision would overflow with the square of a deviation of 256.
        dtype = grid.dtype if grid.dtype in _EXACT else torch.float32
        if place is None or place.shape != grid.shape or place.dtype != dtype:
            place = self._places[index] = torch.zeros_like(grid, dtype=dtype)
            self._tables = None
        place.copy_(grid)
        self._seen.add(index)

    def counts(self) -> list[int]:
        """Values per channel of each layer; 0 for one that did not run."""
        return [
            self._places[index].shape[:-1].numel() if index in self._seen else 0
            for index in range(len(self._channels))
        ]

    def statistics(self) -> tuple[Tensor, Tensor] | None:
        """Mean and biased variance, [channels of all layers]; zero where a layer did not run."""
        if not self._seen:
            return None
        if self._tables is None:
            self._arrange()
        assert self._tables is not None
        for index in self._places.keys() - self._seen:
            self._places[index].zero_()
        means = [table.mean(0) for table in self._tables]
        # Deviations from the frame's own mean: sums of squares would lose small variances.
        variances = [
            table.sub_(mean).square_().mean(0)
            for table, mean in zip(self._tables, means, strict=True)
        ]
        return self._in_order(means), self._in_order(variances)

    def _in_order(self, parts: list[Tensor]) -> Tensor:
        values = torch.cat(parts)
        return values if self._order is None else values[self._order]

    def _arrange(self) -> None:
        """Put places of equally many values side by side, so that few operations serve all."""
        like = next(iter(self._places.values()))
        for index, channels in enumerate(self._channels):
            if index not in self._places:  # has never run
                self._places[index] = like.new_zeros(1, channels)
        groups: dict[tuple[int, torch.dtype], list[int]] = {}
        for index in range(len(self._channels)):
            place = self._places[index]
            groups.setdefault((place.shape[:-1].numel(), place.dtype), []).append(index)
        self._tables = [self._table(count, members) for (count, _), members in groups.items()]
        columns = [index for members in groups.values() for index in members]
        self._order = None if columns == sorted(columns) else self._column_order(columns, like)

    def _table(self, count: int, members: list[int]) -> Tensor:
        samples = [self._places[index].reshape(count, -1) for index in members]
        table = torch.cat(samples, 1)
        parts = table.split([self._channels[index] for index in members], 1)
        for index, part in zip(members, parts, strict=True):
            self._places[index] = part.unflatten(0, self._places[index].shape[:-1])
        return table

    def _column_order(self, columns: list[int], like: Tensor) -> Tensor:
        widths = [self._channels[index] for index in columns]
        starts = dict(zip(columns, accumulate(widths, initial=0), strict=False))
        pieces = [starts[index] + torch.arange(c) for index, c in enumerate(self._channels)]
        return torch.cat(pieces).to(like.device)


class TabulatedSamples:
    """Samples of one frame that an engine gives as a few tables."""

    def __init__(
        self, layers: NormalizationLayers, tables: Sequence[SampleTable], images: slice
    ) -> None:
        self._layers, self._tables, self._images = layers, tables, images

    def counts(self) -> list[int]:
        """Values per channel of each layer; 0 for one that was not looked at."""
        counts = [0] * len(self._layers.channels)
        for table in self._tables:
            values = table.values[self._images]
            for index in table.layers:
                counts[index] = values.shape[:1].numel() * values.shape[2:].numel()
        return counts

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and biased variance, [channels of all layers]; zero where nothing was seen."""
        channels = self._layers.channels
        means, variances = (list(torch.zeros(sum(channels)).split(channels)) for _ in range(2))
        for table in self._tables:
            values = table.values[self._images].transpose(0, 1).flatten(1)  # [channels, values]
            # A product with a vector is several times as fast as a mean over so few values.
            share = values.new_full((values.shape[1],), 1 / values.shape[1])
            mean = values @ share
            variance = (values - mean[:, None]).square_() @ share
            widths = [channels[index] for index in table.layers]
            for parts, found in ((means, mean), (variances, variance)):
                for index, part in zip(table.layers, found.split(widths), strict=True):
                    parts[index] = part
        return torch.cat(means), torch.cat(variances)


def sample_grid(x: Tensor, positions: int, frame: int) -> Tensor:
    """About `positions` values of each channel of each image, as [N, values, channels].

    Rows and columns lie evenly apart and move with the number of the frame, such that in time
    every position is seen equally often. Channels come last because copying and summing are
    then long loops over them.
    """
    if x.dim() != 4:
        return x.movedim(1, -1)
    images, channels, height, width = x.shape
    image, channel, row, column = x.stride()
    grid = Grid.of(height, width, positions)
    # Views instead of permuting and reshaping: this runs for every layer of every frame.
    if grid.is_regular:
        down, right = grid.shifts(frame)
        return x.as_strided(
            (images, grid.rows, grid.columns, channels),
            (image, row * (height // grid.rows), column * (width // grid.columns), channel),
            x.storage_offset() + down * row + right * column,
        )
    if row != width * column:  # a part of a larger map
        return sample_grid(x.contiguous(), positions, frame)
    chosen = grid.indices(frame % grid.period, x.device)
    # Selecting along the dimension that lies as in memory does not copy the whole map.
    start = x.storage_offset()
    if channel == 1:
        flat = x.as_strided((images, height * width, channels), (image, column, 1), start)
        return flat.index_select(1, chosen)
    flat = x.as_strided((images, channels, height * width), (image, channel, column), start)
    return flat.index_select(2, chosen).movedim(1, -1)


@dataclass(frozen=True)
class Grid:
    """Positions of a map, evenly apart, that shift from frame to frame.

    With n places on an axis, floor((k size + shift) / n) for k < n is one in each nth part; over
    all shifts below `size` every place comes n times. Multiples of the greatest common divisor of
    n and size are enough.
    """

    height: int
    width: int
    rows: int
    columns: int

    @staticmethod
    @functools.cache
    def of(height: int, width: int, positions: int) -> "Grid":
        """The grid of about so many positions."""
        step = max(1.0, math.sqrt(height * width / positions))
        return Grid(height, width, max(1, round(height / step)), max(1, round(width / step)))

    @functools.cached_property
    def is_regular(self) -> bool:
        """Whether all places of an axis are equally far apart."""
        return self.height % self.rows == 0 and self.width % self.columns == 0

    @functools.cached_property
    def period(self) -> int:
        """Number of shifts after which the grid comes again."""
        return self._row_period * (self.width // math.gcd(self.width, self.columns))

    @functools.cached_property
    def _row_period(self) -> int:
        return self.height // math.gcd(self.height, self.rows)

    def shifts(self, frame: int) -> tuple[int, int]:
        """How far rows and columns are shifted, in units of the divisor."""
        number = frame % self.period
        return number % self._row_period, number // self._row_period

    @functools.lru_cache(maxsize=10_000)  # noqa: B019 - a handful of grids, kept by `of` anyway
    def indices(self, frame: int, device: torch.device) -> Tensor:
        """The positions in the flattened map."""
        axes = (self.height, self.rows), (self.width, self.columns)
        rows, columns = (
            (torch.arange(n) * size + shift * math.gcd(size, n)) // n
            for (size, n), shift in zip(axes, self.shifts(frame), strict=True)
        )
        return (rows[:, None] * self.width + columns).flatten().to(device)


class BatchEstimator:
    """Estimator that runs frames through a twin whose normalisation works as in training.

    The twin shares the network's parameters but has its own statistics, so it can run in
    another thread while the network serves. Only its adapting normalisation layers are in
    training mode: dropout and everything else behave as in prediction.
    """

    listens = False

    def __init__(self, layers: NormalizationLayers) -> None:
        shared: dict[int, Any] = {id(p): p for p in layers.network.parameters()}
        self._twin = copy.deepcopy(layers.network, shared)
        self._layers = NormalizationLayers(self._twin, layers.layers)
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
            self._twin(frames)
            share = self._layers.per_domain(self._weights, like=current.mean)
            return Estimate(self._layers.read(), share[self._layers.row_group])

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
        tables = self._folded.tables if self._folded is not None else None
        samples: FrameSamples | TabulatedSamples = self._samples[number]
        if tables is not None:
            samples = TabulatedSamples(self._layers, tables, part)
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
