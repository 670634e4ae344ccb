# SPDX-License-Identifier: Apache-2.0
"""The model of a checkpoint of method `adagraph`: a source classifier and a graph of domains."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from newfound_core.backbones import Backbone
from newfound_core.classifier import Classifier
from newfound_core.errors import CheckpointError
from newfound_core.onda.statistics import NormalizationLayers
from newfound_core.predictive.graph import DomainGraph, GraphConfig, Node
from newfound_core.predictive.metadata import Schema
from newfound_core.predictive.stem_fields import Measurer, StemAxes
from newfound_core.preprocessing import Preprocessing


class _NodeStatistics(nn.Module):
    """The statistics of all nodes, [nodes, rows] each, and with `affine` scale and bias."""

    def __init__(self, nodes: int, rows: int, *, affine: bool) -> None:
        super().__init__()
        for name in ("mean", "variance", *(("scale", "bias") if affine else ())):
            one = name in ("variance", "scale")
            self.register_buffer(name, torch.full((nodes, rows), float(one)))


class _StemAxes(nn.Module):
    """The tensors of `StemAxes`."""

    def __init__(self, fields: int, statistics: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(statistics))
        self.register_buffer("directions", torch.zeros(fields, statistics))


class AdaGraphClassifier(Classifier):
    """A source classifier that also knows statistics of other domains.

    It classifies as the source does; `domain_graph` predicts statistics for other domains.
    """

    def __init__(
        self,
        backbone: Backbone,
        classes: int,
        *,
        domain_graph: Mapping[str, Any],
        fingerprint: str,
        **options: Any,
    ) -> None:
        """`domain_graph` is as of `DomainGraph.to_values`, `fingerprint` that of the source."""
        super().__init__(backbone, classes, **options)
        self.graph_values, self.fingerprint = dict(domain_graph), fingerprint
        self._schema = Schema.from_values(domain_graph["schema"])
        self._nodes = [Node(**node) for node in domain_graph["nodes"]]
        self._config = GraphConfig.from_values(domain_graph["config"])
        rows = len(NormalizationLayers(self).row_layer)
        affine = bool(domain_graph.get("affine", False))
        self.graph = _NodeStatistics(len(self._nodes), rows, affine=affine)
        # Checkpoints of before there were any do not say how many.
        fields, statistics = int(domain_graph.get("stem_fields", 0)), 2 * backbone.early_channels
        self.stem_axes = _StemAxes(fields, statistics) if fields else None

    @classmethod
    def around(cls, source: Classifier, graph: DomainGraph) -> "AdaGraphClassifier":
        """A source classifier, whose modules it shares, with a graph."""
        rejection = None if source.rejection is None else source.rejection.options()
        made = cls(
            source.backbone,
            source.classifier.out_features,
            domain_graph=graph.to_values(),
            fingerprint="",
            output_norm=source.output_norm,
            adaptive_layers=source.adaptive_layers,
            source_confidence=source.source_confidence,
            rejection=rejection,
        )
        made.classifier, made.norm = source.classifier, source.norm
        made.rejection = source.rejection
        for name, values in graph.tensors().items():
            made.graph.get_buffer(name).copy_(values)
        if made.stem_axes is not None:
            for name, values in vars(graph.axes).items():
                made.stem_axes.get_buffer(name).copy_(values)
        made.fingerprint = _fingerprint(made)
        return made.eval()

    def options(self) -> dict[str, Any]:
        """What a checkpoint says about it, besides the options of a source classifier."""
        return {"domain_graph": self.graph_values, "fingerprint": self.fingerprint}

    def domain_graph(self) -> DomainGraph:
        """The graph."""
        tensors = dict(self.graph.named_buffers())
        axes = None
        if self.stem_axes is not None:
            axes = StemAxes(**{n: t.cpu() for n, t in self.stem_axes.named_buffers()})
        return DomainGraph(self._schema, self._nodes, config=self._config, axes=axes, **tensors)

    def measurer(self, preprocessing: Preprocessing) -> Measurer:
        """What measures the graph's fields; ask for it before ONDA moves the statistics."""
        return Measurer(self.backbone, preprocessing, self.domain_graph().axes)

    def check_graph(self) -> None:
        """A CheckpointError if the graph is not of this network, as it was loaded."""
        if _fingerprint(self) != self.fingerprint:
            raise CheckpointError(
                "the statistics of its domains belong to another network (the fingerprint "
                "differs): the weights were changed after train-predictive; run it again"
            )
        if bool((self.graph.get_buffer("variance") < 0).any()):
            raise CheckpointError("graph.variance has negative values: run train-predictive again")
        self.domain_graph()


def _fingerprint(model: nn.Module) -> str:
    layers = NormalizationLayers(model)
    return layers.fingerprint(layers.read())
