# SPDX-License-Identifier: Apache-2.0
"""What a frame looks like at the inputs of many layers: a sample of positions, kept cheaply.

This runs for every layer of every frame, so it does little: each layer copies a grid of its
input to its place in a table, and means and variances are computed for whole tables.
"""

import math
from itertools import accumulate

import torch
from torch import Tensor

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
        """Mean and biased variance, [channels of all layers]; nil where a layer did not run."""
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


def sample_grid(x: Tensor, positions: int, frame: int) -> Tensor:
    """About `positions` values of each channel, on a regular grid, as [N, ..., channels].

    The grid moves with the number of the frame, so that in time every position is seen.
    Channels come last because copying and summing are then long loops over them.
    """
    if x.dim() != 4:
        return x.movedim(1, -1)
    images, channels, height, width = x.shape
    step = max(1, round(math.sqrt(height * width / positions)))
    down, right = min(step, height), min(step, width)
    image, channel, row, column = x.stride()
    offset = frame % down * row + frame // down % right * column
    # One view instead of a chain of slices: this runs for every layer of every frame.
    return x.as_strided(
        (images, height // down, width // right, channels),
        (image, row * down, column * right, channel),
        x.storage_offset() + offset,
    )
