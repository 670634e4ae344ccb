# SPDX-License-Identifier: Apache-2.0
"""ONDA on ONNX Runtime: the folded network as a session whose weights are changed in place.

    onda = Onda(network, config, engine=partial(OnnxFolding, size=224, positions=16))

Making a session with other weights takes five times as long as a pass, so none is made. The graph
is optimised once; the tensors in it that hold folded weights are found, with the order their
elements have there (convolutions keep them in blocks); and sessions read these tensors from
memory of ours. An update is one multiplication per layer, between two frames.

What the normalisation layers see is read by a second session, which serves the frames that are
learned from. The input of a layer is the output of a convolution, before the activation that ONNX
Runtime computes together with it. Where the map is large, the same convolution is computed once
more with a larger stride: 16 of 12,544 positions, and no map leaves its fused form. Several such
sessions, whose grids lie at other places, take turns. Where it is small, its output is read.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from newfound_core.errors import ConfigError
from newfound_core.export import OnnxGraph, relative_difference
from newfound_core.onda.folding import FoldedNetwork, Folding, Pair, SampleTable, fold
from newfound_core.onda.onnx_weights import FoldedTensor, InPlaceWeights
from newfound_core.onda.statistics import NormalizationLayers, Statistics
from newfound_core.onnx_graphs import GRAPHS
from newfound_core.onnx_runtime import INPUT_NAME

PHASES = 4  # sessions with grids at other places
# Learning from a frame takes two thirds longer than serving it: every third one is learned from.
LEARN_EVERY = 3
_SMALL = 2  # a grid of this step or less is taken from the whole map
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
        nodes = _nodes(layers, twin, model)
        samplings = [Sampling(model, nodes, maps, positions, phase) for phase in range(PHASES)]
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
        self.tables = sampling.tables(found[len(self._names) :])
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


def _nodes(layers: NormalizationLayers, twin: FoldedNetwork, model: Any) -> dict[int, Any]:
    """The node of the graph whose output an adapting layer sees, by the layer's index."""
    users = {node.input[1]: node for node in model.graph.node if len(node.input) > 1}
    names = _names_before(layers, twin.pairs)
    try:
        return {index: users[f"{names[index]}.weight"] for index in layers.adapting}
    except KeyError as error:
        raise ConfigError(
            f"the ONNX graph has no layer with the weights {error}: set backend to torch to adapt"
        ) from error


class Sampling:
    """A graph that also gives samples of what the normalisation layers see."""

    def __init__(
        self,
        model: Any,
        nodes: dict[int, Any],
        maps: dict[int, tuple[int, ...]],
        positions: int,
        phase: int,
    ) -> None:
        self.model = type(model)()
        self.model.CopyFrom(model)
        groups: dict[tuple[tuple[int, ...], bool], list[tuple[int, str]]] = {}
        for index, node in nodes.items():
            size = maps[index]
            step = grid_step(size, positions)
            strided = len(size) == 2 and node.op_type == "Conv" and step > _SMALL
            name = node.output[0]
            if strided:
                name = self._add_strided(node, step, grid_start(step, phase))
            groups.setdefault((size, strided), []).append((index, name))
        self.outputs: list[str] = []
        self._groups: list[tuple[list[int], tuple[slice, ...]]] = []  # layers, what counts
        for (size, strided), members in groups.items():
            self._expose([name for _, name in members])
            kept = _kept(size, grid_step(size, positions), phase) if strided else ()
            self._groups.append(([index for index, _ in members], kept))

    def same_as(self, other: "Sampling") -> bool:
        """Whether both look at the same positions."""
        return self.model == other.model

    def tables(self, outputs: Sequence[np.ndarray]) -> list[SampleTable]:
        """The samples without what lies before the map, equally many in every phase."""
        return [
            SampleTable(layers, torch.from_numpy(values[kept]))
            for values, (layers, kept) in zip(outputs, self._groups, strict=True)
        ]

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
        self.model.graph.node.append(helper.make_node("Conv", list(node.input), [name], **given))
        return name

    def _expose(self, names: list[str]) -> None:
        """One output with the channels of several: each would cost as much as all."""
        from onnx import TensorProto, helper

        name = names[0]
        if len(names) > 1:
            name = f"{names[0]}_and_{len(names) - 1}"
            self.model.graph.node.append(helper.make_node("Concat", names, [name], axis=1))
        self.model.graph.output.append(
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        )
        self.outputs.append(name)


def _kept(size: tuple[int, ...], step: int, phase: int) -> tuple[slice, ...]:
    rows, columns = (
        kept_places(side, step, first, phase)
        for side, first in zip(size, grid_start(step, phase), strict=True)
    )
    return slice(None), slice(None), rows, columns


def grid_step(size: tuple[int, ...], positions: int) -> int:
    """Distance of positions such that about `positions` of a map are taken."""
    return max(1, min(round(math.sqrt(math.prod(size) / positions)), *size)) if size else 1


def kept_places(side: int, step: int, start: int, phase: int) -> slice:
    """Which of the places of a grid along one side count: a number that all phases have.

    Otherwise memory would be arranged anew in every frame. Every second phase leaves out the
    first place and not the last, so that the end of the map is seen as often as its beginning.
    """
    before, count = int(start > 0), side // step
    found = -(-(side - start) // step)
    first = before + (found - count if phase % 2 else 0)
    return slice(first, first + count)


def grid_start(step: int, phase: int) -> tuple[int, int]:
    """The first row and column of a grid; those of several phases are spread evenly."""
    row, column = (int((phase + 1) * share % 1 * step) for share in _R2)
    return row, column
