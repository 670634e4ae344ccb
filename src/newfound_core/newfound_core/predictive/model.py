# SPDX-License-Identifier: Apache-2.0
"""The model of a checkpoint of method `adagraph`: a source classifier and a graph of domains."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from newfound_core.backbones import Backbone
from newfound_core.classifier import Classifier
from newfound_core.errors import CheckpointError
from newfound_core.onda.statistics import NormalizationLayers
from newfound_core.predictive.graph import DomainGraph, GraphConfig, Node
from newfound_core.predictive.metadata import Schema


class _NodeStatistics(nn.Module):
    """The statistics of all nodes, [nodes, rows] each."""

    mean: Tensor
    variance: Tensor

    def __init__(self, nodes: int, rows: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(nodes, rows))
        self.register_buffer("variance", torch.ones(nodes, rows))


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
        self.graph = _NodeStatistics(len(self._nodes), rows)

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
        made.graph.mean.copy_(graph.mean)
        made.graph.variance.copy_(graph.variance)
        made.fingerprint = _fingerprint(made)
        return made.eval()

    def options(self) -> dict[str, Any]:
        """What a checkpoint says about it, besides the options of a source classifier."""
        return {"domain_graph": self.graph_values, "fingerprint": self.fingerprint}

    def domain_graph(self) -> DomainGraph:
        """The graph."""
        mean, variance = self.graph.mean, self.graph.variance
        return DomainGraph(self._schema, self._nodes, mean, variance, self._config)

    def check_graph(self) -> None:
        """A CheckpointError if the graph is not of this network, as it was loaded."""
        if _fingerprint(self) != self.fingerprint:
            raise CheckpointError(
                "the statistics of its domains belong to another network (the fingerprint "
                "differs): the weights were changed after train-predictive; run it again"
            )
        if bool((self.graph.variance < 0).any()):
            raise CheckpointError("graph.variance has negative values: run train-predictive again")
        self.domain_graph()


def _fingerprint(model: nn.Module) -> str:
    layers = NormalizationLayers(model)
    return layers.fingerprint(layers.read())
