# SPDX-License-Identifier: Apache-2.0
"""Samples of what normalisation layers see in a frame, and their statistics.

A map has thousands of positions, and neighbours say the same: some of them, evenly apart and
shifted from frame to frame, are enough for a mean and a variance.
"""

import functools
import math
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from newfound_core.onda.folding import SampledMoments
from newfound_core.onda.statistics import NormalizationLayers

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


class EngineSamples:
    """Samples of some images of a pass whose moments an engine has computed itself."""

    def __init__(
        self, layers: NormalizationLayers, moments: SampledMoments, images: slice
    ) -> None:
        self._channels, self._positions = layers.channels, moments.positions
        self._mean, self._variance = moments.mean[images], moments.variance[images]

    def counts(self) -> list[int]:
        """Values per channel of each layer; 0 for one that was not looked at."""
        images = len(self._mean)
        return [images * self._positions.get(i, 0) for i in range(len(self._channels))]

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and biased variance, [channels of all layers]; zero where nothing was seen."""
        mean = self._mean.mean(0)
        # All images have equally many values: their means' deviations are added to the variances.
        variance = (self._variance + (self._mean - mean).square_()).mean(0)
        if len(self._positions) == len(self._channels):
            return mean, variance
        return self._spread(mean), self._spread(variance)

    def _spread(self, values: Tensor) -> Tensor:
        """Values of the layers that were looked at, in their places among all."""
        parts = list(values.new_zeros(sum(self._channels)).split(list(self._channels)))
        seen = values.split([self._channels[i] for i in self._positions])
        for index, part in zip(self._positions, seen, strict=True):
            parts[index] = part
        return torch.cat(parts)


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
