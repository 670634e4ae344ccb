# SPDX-License-Identifier: Apache-2.0
"""ONDA on ONNX Runtime: the folded network as a session whose weights are changed in place.

    onda = Onda(network, config, engine=partial(OnnxFolding, size=224, positions=16))

Making a session with other weights takes five times as long as a pass, so none is made. The graph
is optimised once; the tensors in it that hold folded weights are found, with the order their
elements have there (convolutions keep them in blocks); and sessions read these tensors from
memory of ours. An update is one multiplication per layer, between two frames.

What the normalisation layers see is read by a second session, which serves the frames that are
learned from. The input of a layer is the output of a convolution, before the activation that ONNX
Runtime computes together with it. So the same convolution is computed once more with a larger
stride, 16 of 12,544 positions: no map leaves its fused form. Several such sessions, whose grids
lie at other places, take turns. Means and variances of the samples are part of the graph, so that
few numbers leave it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from newfound_core.errors import ConfigError
from newfound_core.export import OnnxGraph, relative_difference
from newfound_core.onda.folding import FoldedNetwork, Folding, Pair, SampledMoments, fold
from newfound_core.onda.onnx_weights import FoldedTensor, InPlaceWeights
from newfound_core.onda.statistics import NormalizationLayers, Statistics
from newfound_core.onnx_graphs import GRAPHS
from newfound_core.onnx_runtime import INPUT_NAME

PHASES = 4  # sessions with grids at other places
# Learning from a frame takes two thirds longer than serving it. An odd number, since cameras that
# take turns and lights that flicker have even periods.
LEARN_EVERY = 7
_TOLERANCE = 1e-4
# Steps of the R2 sequence, which fills a square evenly however many points are taken.
_R2 = (0.7548776662466927, 0.5698402909980532)


class OnnxFolding(Folding):
    """The folded network in ONNX Runtime on a CPU."""

    def __init__(
        self,
        layers: NormalizationLayers,
        *,
        size: int,
        positions: int,
        learn_every: int = LEARN_EVERY,
        threads: int = 0,
    ) -> None:
        """`size` is that of the images, `positions` about how many of a map are looked at."""
        frame = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
        twin = _fold_all(layers, frame)
        super().__init__(layers, twin.pairs)
        self.learn_every = learn_every
        maps = _map_sizes(twin, frame)
        graph = GRAPHS.of_folded(twin, frame)
        self._names, self._rebuild = list(graph.names), graph.rebuild
        model = _parsed(graph)
        sampled = _sampled_layers(layers, twin, model, maps)
        samplings = [Sampling(model, sampled, positions, phase) for phase in range(PHASES)]
        if samplings[0].same_as(samplings[1]):
            samplings = samplings[:1]  # no map is large
        self._weights = InPlaceWeights(_folded_tensors(layers, twin))
        self._session = self._weights.session(model, threads)
        self._samplings = [(s, self._weights.session(s.model, threads)) for s in samplings]
        self._turn = 0
        self._check(frame)

    def run(self, images: Tensor, *, observe: bool) -> Any:
        """What the network returns."""
        given = {INPUT_NAME: images.detach().cpu().numpy()}
        if not observe:
            return self._output(self._session.run(self._names, given))
        sampling, session = self._samplings[self._turn]
        self._turn = (self._turn + 1) % len(self._samplings)
        found = session.run([*self._names, *sampling.outputs], given)
        self.moments = sampling.moments(*found[len(self._names) :])
        return self._output(found[: len(self._names)])

    def _output(self, found: Sequence[np.ndarray]) -> Any:
        return self._rebuild([torch.from_numpy(values) for values in found])

    def _write_weights(self) -> None:
        self._weights.write(self._scale, self._shift)

    @torch.no_grad()
    def _check(self, frame: Tensor) -> None:
        """Compare every session with the network, also with statistics far from the present."""
        layers = self._layers
        present = layers.read()
        far = Statistics(present.mean + present.variance.sqrt() / 2, present.variance * 2)
        try:
            for statistics in (far, present):
                layers.write(statistics)
                self.refresh(statistics)
                expected = _tensors(layers.network(frame))
                for observe in (False, *[True] * len(self._samplings)):
                    for a, b in zip(
                        _tensors(self.run(frame, observe=observe)), expected, strict=True
                    ):
                        if not relative_difference(a, b) <= _TOLERANCE:
                            raise ConfigError(
                                "ONNX Runtime with weights that change computes something else "
                                "than PyTorch: set backend to torch to adapt this model"
                            )
        finally:
            layers.write(present)


def _fold_all(layers: NormalizationLayers, frame: Tensor) -> FoldedNetwork:
    """The folded twin in PyTorch, if every layer that adapts is folded."""
    reason = "a layer works for several domains" if not layers.plain else "it computes otherwise"
    if (twin := fold(layers, frame)) is None:
        raise ConfigError(
            f"normalisation cannot be folded into the layers before it ({reason}), which adapting "
            "on ONNX Runtime needs: set backend to torch"
        )
    missing = set(layers.adapting) - {pair.index for pair in twin.pairs}
    if missing:
        raise ConfigError(
            f"the normalisation layer {layers.names[min(missing)]} does not follow a convolution "
            "or linear layer directly, which adapting on ONNX Runtime needs: set backend to torch"
        )
    return twin


def _tensors(output: Any) -> Sequence[Tensor]:
    return output if isinstance(output, tuple) else (output,)


def _parsed(graph: OnnxGraph) -> Any:
    import onnx

    return onnx.load_from_string(graph.content)


def _map_sizes(twin: FoldedNetwork, frame: Tensor) -> dict[int, tuple[int, ...]]:
    """Height and width of what each layer sees, () where it has none."""
    sizes: dict[int, tuple[int, ...]] = {}

    def note(index: int, x: Tensor) -> None:
        sizes[index] = tuple(x.shape[2:])

    handles = [
        module.register_forward_pre_hook(lambda _, x, index=index: note(index, x[0]))
        for index, module in enumerate(twin.observed)
    ]
    try:
        with torch.no_grad():
            twin.network(frame)
    finally:
        for handle in handles:
            handle.remove()
    return sizes


def _names_before(layers: NormalizationLayers, pairs: Sequence[Pair]) -> dict[int, str]:
    """Names in the graph of the layers before the normalisation layers, by these' index."""
    names = {module: name for name, module in layers.network.named_modules()}
    return {pair.index: f"{OnnxGraph.PREFIX}{names[pair.before]}" for pair in pairs}


def _folded_tensors(layers: NormalizationLayers, twin: FoldedNetwork) -> list[FoldedTensor]:
    found, names = [], _names_before(layers, twin.pairs)
    for pair in twin.pairs:
        name, rows = names[pair.index], layers.rows(pair.index)
        weight = pair.before.weight
        assert isinstance(weight, Tensor)
        found.append(FoldedTensor(f"{name}.weight", weight.detach().numpy(), rows, is_bias=False))
        ones = np.ones(len(weight), np.float32)
        found.append(FoldedTensor(f"{name}.bias", ones, rows, is_bias=True))
    return found


@dataclass(frozen=True)
class SampledLayer:
    """A normalisation layer that adapts, and the node of the graph whose output it sees."""

    index: int
    node: Any
    size: tuple[int, ...]  # height and width of its map, () where it has none
    channels: int


def _sampled_layers(
    layers: NormalizationLayers, twin: FoldedNetwork, model: Any, maps: dict[int, tuple[int, ...]]
) -> list[SampledLayer]:
    users = {node.input[1]: node for node in model.graph.node if len(node.input) > 1}
    names = _names_before(layers, twin.pairs)
    try:
        return [
            SampledLayer(i, users[f"{names[i]}.weight"], maps[i], layers.channels[i])
            for i in layers.adapting
        ]
    except KeyError as error:
        raise ConfigError(
            f"the ONNX graph has no layer with the weights {error}: set backend to torch to adapt"
        ) from error


class Sampling:
    """A graph that also gives moments of samples of what the normalisation layers see."""

    def __init__(
        self, model: Any, layers: Sequence[SampledLayer], positions: int, phase: int
    ) -> None:
        self.model = type(model)()
        self.model.CopyFrom(model)
        groups: dict[tuple[tuple[int, ...], bool], list[tuple[SampledLayer, str]]] = {}
        for layer in layers:
            node, size, step = layer.node, layer.size, grid_step(layer.size, positions)
            strided = len(size) == 2 and node.op_type == "Conv" and step > 1
            start = grid_start(step, phase)
            name = self._add_strided(node, step, start) if strided else node.output[0]
            groups.setdefault((size, strided), []).append((layer, name))
        parts: list[tuple[str, str]] = []
        self._positions: dict[int, int] = {}  # of an image, by layer
        for (size, strided), members in groups.items():
            samples = self._joined([name for _, name in members])
            step = grid_step(size, positions)
            counted = counted_places(size, step, phase) if strided else np.ones(size, bool)
            parts.append(self._add_moments(samples, counted))
            self._positions |= {layer.index: int(counted.sum()) for layer, _ in members}
        channels = {layer.index: layer.channels for layer in layers}
        self._columns = _column_order({i: channels[i] for i in self._positions})
        self.outputs = [self._joined(list(names)) for names in zip(*parts, strict=True)]
        self._expose(self.outputs)

    def same_as(self, other: "Sampling") -> bool:
        """Whether both look at the same positions."""
        return self.model == other.model

    def moments(self, mean: np.ndarray, variance: np.ndarray) -> SampledMoments:
        """What the outputs of a pass tell."""
        mean, variance = (v[:, self._columns] for v in (mean, variance))
        positions = dict(sorted(self._positions.items()))
        return SampledMoments(torch.from_numpy(mean), torch.from_numpy(variance), positions)

    def _add_strided(self, node: Any, step: int, start: tuple[int, int]) -> str:
        """The same convolution at every `step`-th position, from `start` on; its output."""
        from onnx import helper

        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        strides, pads = given.get("strides", [1, 1]), given.get("pads", [0, 0, 0, 0])
        # ONNX has no negative padding. With more of it the grid begins before the map, at a
        # position that is cut off, and continues at `start`.
        before = [(step - s) % step for s in start]
        given["strides"] = [stride * step for stride in strides]
        given["pads"] = [
            pads[0] + before[0] * strides[0],
            pads[1] + before[1] * strides[1],
            *pads[2:],
        ]
        name = f"{node.output[0]}_sampled"
        return self._add("Conv", list(node.input), name, **given)

    def _add_moments(self, name: str, counted: np.ndarray) -> tuple[str, str]:
        """Mean and biased variance of each image and channel over the places that count."""
        if not counted.ndim:
            return name, self._add("Sub", [name, name], f"{name}_variance")
        # As products of matrices, which take half the time of reductions and differences.
        share = counted.reshape(-1, 1) / counted.sum()
        weights = self._add_constant(f"{name}_share", share.astype(np.float32))
        centring = (np.eye(len(share)) - share).astype(np.float32)
        shape = self._add_constant(f"{name}_shape", np.array([0, 0, -1], np.int64))
        values = self._add("Reshape", [name, shape], f"{name}_values")
        mean = self._add("MatMul", [values, weights], f"{name}_mean")
        centred = self._add_constant(f"{name}_centring", centring)
        deviation = self._add("MatMul", [values, centred], f"{name}_deviation")
        square = self._add("Mul", [deviation, deviation], f"{name}_square")
        variance = self._add("MatMul", [square, weights], f"{name}_variance")
        first, second = (self._add("Flatten", [m], f"{m}_flat") for m in (mean, variance))
        return first, second

    def _joined(self, names: list[str]) -> str:
        """The channels of several side by side: many small operations would cost more."""
        if len(names) == 1:
            return names[0]
        return self._add("Concat", names, f"{names[0]}_and_{len(names) - 1}", axis=1)

    def _add_constant(self, name: str, values: np.ndarray) -> str:
        from onnx import numpy_helper

        self.model.graph.initializer.append(numpy_helper.from_array(values, name))
        return name

    def _add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        self.model.graph.node.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def _expose(self, names: list[str]) -> None:
        from onnx import TensorProto, helper

        for name in names:
            self.model.graph.output.append(
                helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            )


def grid_step(size: tuple[int, ...], positions: int) -> int:
    """Distance of positions such that about `positions` of a map are taken."""
    return max(1, min(round(math.sqrt(math.prod(size) / positions)), *size)) if size else 1


def counted_places(size: tuple[int, ...], step: int, phase: int) -> np.ndarray:
    """Which places of a grid count, [rows, columns]: equally many in all phases.

    The first ones lie before the map where the grid does not begin at its corner. Every second
    phase leaves out the first place and not the last, so that the end of the map is seen as often
    as its beginning.
    """
    sides = []
    for side, start in zip(size, grid_start(step, phase), strict=True):
        before, inside, count = int(start > 0), -(-(side - start) // step), side // step
        first = before + (inside - count if phase % 2 else 0)
        place = np.arange(before + inside)
        sides.append((first <= place) & (place < first + count))
    return np.logical_and.outer(*sides)


def _column_order(channels: dict[int, int]) -> np.ndarray:
    """Columns of layers, whose channels lie side by side, in the order of the layers."""
    starts = dict(zip(channels, np.cumsum([0, *channels.values()]), strict=False))
    return np.concatenate([starts[i] + np.arange(channels[i]) for i in sorted(channels)])


def grid_start(step: int, phase: int) -> tuple[int, int]:
    """The first row and column of a grid; those of several phases are spread evenly."""
    row, column = (int((phase + 1) * share % 1 * step) for share in _R2)
    return row, column
