# SPDX-License-Identifier: Apache-2.0
"""ONNX graphs of models that differ in their weights alone are traced once.

Tracing takes seconds, in which the interpreter has little time for frames. A task over a shared
network has the graph of the task before it, with other weights and another number of classes: the
weights are exchanged in the graph, and the result is compared with the model as any other is.

An exporter folds batch normalisation into the weights before it. It is folded here before tracing,
so that every tensor of the graph is a tensor of the network.
"""

import copy
import threading
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from newfound_core.errors import BackboneError, ExportError
from newfound_core.export import InferenceGraph, OnnxGraph, trace_onnx
from newfound_core.onda.folding import FoldedNetwork, fold
from newfound_core.onda.statistics import NormalizationLayers

_KEPT = 4  # graphs
Key = tuple[str, tuple[int, ...], tuple[str, ...]]


class OnnxGraphs:
    """Graphs that were traced, the least recently used let go."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, bytes] = OrderedDict()
        self._lock = threading.Lock()  # one trace at a time is work enough

    def of(self, model: nn.Module, example: Tensor) -> OnnxGraph:
        """The graph of a model, compared with it; an ExportError if there can be none."""
        with self._lock:
            layers = _plain_layers(model)
            twin = None if layers is None else fold(layers, example)
            found = None if twin is None else self._exchanged(twin, model, example)
            return found or _traced(model, example)

    def of_folded(self, twin: FoldedNetwork, example: Tensor) -> OnnxGraph:
        """The graph of a network that is folded already, compared with it."""
        with self._lock:
            found = self._exchanged(twin, twin.network, example)
            return found or _traced(twin.network, example)

    def _exchanged(
        self, twin: FoldedNetwork, model: nn.Module, example: Tensor
    ) -> OnnxGraph | None:
        """A graph with the twin's weights, traced if none is kept; None if it is not the model."""
        for _ in range(2):  # a graph that was kept may turn out to be that of another network
            try:
                graph = with_weights(self._trace(twin, example), twin.network, example)
                graph.compare(model, example)
            except Exception:  # ONNX Runtime's have no common type
                self._kept.pop(_key(twin, example), None)
            else:
                return graph
        return None

    def _trace(self, twin: FoldedNetwork, example: Tensor) -> bytes:
        """The graph of a folded network, kept or traced, with any weights."""
        key = _key(twin, example)
        if key not in self._kept:
            weights = copy.deepcopy(twin.network.state_dict())
            twin.randomize()  # equal tensors would become one in the graph
            try:
                self._kept[key] = trace_onnx(twin.network, example).content
            finally:
                twin.network.load_state_dict(weights)
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]


def _key(twin: FoldedNetwork, example: Tensor) -> Key:
    network = twin.network
    return type(network).__name__, tuple(example.shape[1:]), tuple(network.state_dict())


def _traced(model: nn.Module, example: Tensor) -> OnnxGraph:
    graph = trace_onnx(model, example)
    graph.compare(model, example)
    return graph


def _plain_layers(model: nn.Module) -> NormalizationLayers | None:
    """The normalisation layers of a copy of the model, if they can be folded."""
    try:
        layers = NormalizationLayers(copy.deepcopy(model).cpu().eval())
    except BackboneError:  # it has none
        return None
    return layers if layers.plain else None


GRAPHS = OnnxGraphs()


@torch.no_grad()
def with_weights(content: bytes, model: nn.Module, example: Tensor) -> OnnxGraph:
    """A graph of a model of the same kind, with the weights of this one; compare it."""
    import onnx

    found: Any = onnx.load_from_string(content)
    weights = {OnnxGraph.PREFIX + name: tensor for name, tensor in model.state_dict().items()}
    for held in found.graph.initializer:
        if held.name in weights:
            values = weights[held.name].detach().cpu().contiguous().numpy()
            held.CopyFrom(onnx.numpy_helper.from_array(values, held.name))
    del found.graph.value_info[:]  # shapes within: with other classes they are others
    graph = InferenceGraph(model, example)
    if [output.name for output in found.graph.output] != list(graph.names):
        raise ExportError("the outputs are others")
    for output, tensor in zip(found.graph.output, graph(example), strict=True):
        for size, dimension in zip(tensor.shape[1:], output.type.tensor_type.shape.dim[1:],
                                   strict=True):  # fmt: skip
            dimension.dim_value = size
    return OnnxGraph(found.SerializeToString(), graph.names, graph.rebuild)
