# SPDX-License-Identifier: Apache-2.0
"""Weights of ONNX Runtime sessions that are changed in place.

A session with user-supplied initialisers reads them from the user's memory in every pass, as long
as it packs no copy. But the optimiser reorders the weights of convolutions, in blocks whose size
depends on the processor, and drops the original. So it is run on numbers that tell where they
come from, and the optimised graph shows which tensors it made of which, in which order.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from newfound_core.errors import ConfigError
from newfound_core.onnx_runtime import import_onnxruntime, make_session

_EXACT_INTEGERS = 2**24  # of single precision
_BLOCKS = (1, 4, 8, 16, 32, 64)  # channels side by side in a reordered weight


@dataclass(frozen=True)
class FoldedTensor:
    """A weight or bias of a folded layer."""

    name: str  # in the graph
    values: np.ndarray  # [channels, ...], what the scale (the shift, of a bias) is multiplied by
    rows: slice  # of the statistics, one for each channel
    is_bias: bool


class InPlaceWeights:
    """Memory with the folded weights, in the order in which optimised graphs want them."""

    def __init__(self, tensors: Sequence[FoldedTensor]) -> None:
        self._tensors = list(tensors)
        if any(t.values.size >= _EXACT_INTEGERS for t in tensors):
            raise ConfigError(
                "a layer is too large to adapt on ONNX Runtime: set backend to torch"
            )
        self._buffers: dict[tuple[str, bytes], WeightBuffer] = {}  # by tensor and order

    def session(self, model: Any, threads: int) -> Any:
        """A session of a graph that reads the folded weights from here, now and later.

        `write` must be called before the first pass.
        """
        # Negative numbers tell the tensor, positive ones the place in it; padding is zero.
        sources = {t.name: np.full(t.values.shape, -1.0 - k) for k, t in enumerate(self._tensors)}
        places = {
            t.name: _unit(k) * np.arange(1.0, 1 + t.values.size).reshape(t.values.shape)
            for k, t in enumerate(self._tensors)
        }
        optimized = _optimized(model, places)
        found, where = _initializers(_optimized(model, sources)), _initializers(optimized)
        if found.keys() != where.keys():
            raise ConfigError(_UNCLEAR)
        values = {
            name: self._buffer(found[name], where[name]).value
            for name in found
            if not np.array_equal(found[name], where[name], equal_nan=True)
        }
        return make_session(optimized.SerializeToString(), threads=threads, weights=values)

    def write(self, scale: Tensor, shift: Tensor) -> None:
        """Let the next pass use other weights: the values times scale, and biases of `shift`."""
        for buffer in self._buffers.values():
            buffer.write(shift if buffer.is_bias else scale)

    def _buffer(self, source: np.ndarray, places: np.ndarray) -> "WeightBuffer":
        """The buffer behind a tensor of the optimised graph, which sessions share."""
        numbers = np.unique(source[source != 0])
        number = int(-numbers[0]) - 1 if len(numbers) == 1 else -1
        if not 0 <= number < len(self._tensors) or (places[source == 0] != 0).any():
            raise ConfigError(_UNCLEAR)  # two tensors were merged, or multiplied by something
        tensor, order = self._tensors[number], (places / _unit(number)).astype(np.int64)
        if not np.array_equal(np.sort(order[order > 0]), np.arange(1, 1 + tensor.values.size)):
            raise ConfigError(_UNCLEAR)
        key = tensor.name, order.tobytes() + bytes(str(order.shape), "ascii")
        if key not in self._buffers:
            self._buffers[key] = WeightBuffer(tensor, order)
        return self._buffers[key]


_UNCLEAR = (
    "ONNX Runtime's optimiser changes the weights in a way that cannot be followed, so they "
    "cannot adapt: set backend to torch"
)


class WeightBuffer:
    """One tensor of an optimised graph."""

    def __init__(self, tensor: FoldedTensor, order: np.ndarray) -> None:
        """`order` has the place of each element in the original, from 1 on; 0 is padding."""
        self.is_bias = tensor.is_bias
        flat = np.concatenate([np.zeros(1), tensor.values.reshape(-1)]).astype(np.float32)
        channel = (order.reshape(-1) - 1) // (tensor.values.size // len(tensor.values))
        shape, channels = _blocks(channel)
        self._base = torch.from_numpy(flat[order.reshape(-1)]).view(shape)
        self._rows = torch.from_numpy(tensor.rows.start + channels)  # [groups, 1, block]
        self._memory = np.zeros(order.shape, np.float32)
        self._view = torch.from_numpy(self._memory).view(shape)
        self._written: Tensor | None = None
        # Does not copy: on a CPU the value is the array's own memory.
        self.value = import_onnxruntime().OrtValue.ortvalue_from_numpy(self._memory)

    def write(self, factor: Tensor) -> None:
        """Multiply by a factor per row of the statistics; those of many layers never move."""
        factor = factor[self._rows]
        if self._written is None or not torch.equal(factor, self._written):
            torch.mul(self._base, factor, out=self._view)
            self._written = factor


def _blocks(channel: np.ndarray) -> tuple[tuple[int, int, int], np.ndarray]:
    """A shape [groups, inner, block] in which the channel does not depend on `inner`.

    So one factor per channel is broadcast, which is several times as fast as one per element.
    """
    count = int(channel.max()) + 1
    for block in _BLOCKS:
        groups = -(-count // block)
        if len(channel) % (groups * block):
            continue
        grouped = channel.reshape(groups, -1, block)
        known = grouped.max(1, keepdims=True)
        if ((grouped == known) | (grouped < 0)).all():
            return (groups, grouped.shape[1], block), known.clip(min=0)
    return (1, 1, len(channel)), channel.clip(min=0).reshape(1, 1, -1)


def _unit(number: int) -> float:
    """A power of two that differs from tensor to tensor, since equal tensors become one."""
    return 2.0 ** (number % 200 - 100)


def _optimized(model: Any, values: Mapping[str, np.ndarray]) -> Any:
    """The graph as ONNX Runtime optimises it for this machine, with other initialisers."""
    import onnx

    changed = type(model)()
    changed.CopyFrom(model)
    missing = set(values)
    for tensor in changed.graph.initializer:
        if tensor.name in values:
            new = values[tensor.name].astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(new, tensor.name))
            missing.discard(tensor.name)
    if missing:
        raise ConfigError(f"the ONNX graph has no weights {min(missing)}: set backend to torch")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "optimized.onnx"
        make_session(changed.SerializeToString(), threads=1, optimized_to=file)
        return onnx.load(file)


def _initializers(model: Any) -> dict[str, np.ndarray]:
    from onnx import numpy_helper

    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
