# SPDX-License-Identifier: Apache-2.0
"""Full AdaGraph: a scale and a bias for every node, trained through the graph.

M. Mancini et al., "AdaGraph", CVPR 2019, arXiv:1903.07062; the thesis's second stage. All
but scale and bias is frozen. A step is one batch of one domain v, drawn evenly among the nodes;
with statistics mu_B, var_B of the batch a layer computes

    y = gamma_v^G (x - mu_B) / sqrt(var_B + eps) + beta_v^G,     nu_v^G = sum_k e_vk nu_k

and the loss is the cross-entropy of the labels for the source, the mean entropy of the predictions
for all others. Without edges (e_vv = 1) this is the thesis's variant "SB". Afterwards the
statistics of every node are estimated anew behind its own scale and bias.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from tqdm import tqdm

from newfound_core.errors import ConfigError
from newfound_core.latent.classifier import require_classes
from newfound_core.models import LoadedModel
from newfound_core.onda.folding import logits_of
from newfound_core.onda.refinement import mean_entropy
from newfound_core.onda.statistics import NormalizationLayers, twin_of
from newfound_core.predictive.graph import DomainGraph
from newfound_core.resume import (
    model_tensors,
    read_state,
    restore_optimizer,
    training_tensors,
    write_state,
)
from newfound_training.predictive.nodes import DomainImages, statistics_of

IMAGES = 16  # of a step
WEIGHT_DECAY = 1e-6
SAVE_EVERY = 25  # steps
# Of the moving mean of the predictions on auxiliary domains, by which a collapse is noticed.
FOLLOWED = 0.1
WARM_UP = 30  # steps before it is judged


@dataclass(frozen=True)
class AffineOptions:
    """How scale and bias are trained."""

    edges: Literal["graph", "none"]  # as of GraphConfig.node_edges
    epochs: float
    lr: float


class NodeAffine(nn.Module):
    """Scale and bias of every node, [nodes, rows] each."""

    def __init__(self, source: Sequence[Tensor], edges: Tensor) -> None:
        super().__init__()
        nodes = len(edges)
        self.scale, self.bias = (nn.Parameter(row.expand(nodes, -1).clone()) for row in source)
        self.register_buffer("edges", edges, persistent=False)

    def of(self, node: int) -> tuple[Tensor, Tensor]:
        """nu_v^G of one node, [rows] each."""
        edges = self.get_buffer("edges")[node]
        return edges @ self.scale, edges @ self.bias


class GraphNetwork:
    """A network whose normalisation takes the batch's statistics and a node's scale and bias."""

    def __init__(self, network: nn.Module, which: str) -> None:
        self._twin = twin_of(network).eval()
        self.layers = NormalizationLayers(self._twin, which)
        self._classes_only = getattr(network, "rejection", None) is not None
        for index in self.layers.adapting:
            # With momentum 0 the running statistics stay.
            self.layers.modules[index].training = True
            self.layers.modules[index].momentum = 0.0

    def logits(self, images: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        """Of the classes; differentiable in scale and bias, [rows] each."""
        given: dict[str, Tensor] = {}
        for index in self.layers.adapting:
            rows, name = self.layers.rows(index), self.layers.names[index]
            given |= {f"{name}.weight": scale[rows], f"{name}.bias": bias[rows]}
        logits = logits_of(functional_call(self._twin, given, (images,)))
        return logits[:, :-1] if self._classes_only else logits


class AffineTraining:
    """Trains scale and bias of the nodes of a graph."""

    def __init__(
        self,
        loaded: LoadedModel,
        graph: DomainGraph,
        domains: Sequence[DomainImages],  # of each node
        options: AffineOptions,
    ) -> None:
        self._loaded, self._options = loaded, options
        self.graph = graph.with_config(replace(graph.config, node_edges=options.edges))
        self._of_node = domains
        which = getattr(loaded.model, "adaptive_layers", "all")
        self._layers = NormalizationLayers(loaded.model, which)
        if not self._layers.has_affine:
            raise ConfigError("scale and bias of domains need plain batch normalisation")
        if not any(domain.labels is not None for domain in self._of_node):
            raise ConfigError("scale and bias are trained with labels of the source")
        self._network = GraphNetwork(loaded.model, which)
        source = [row.to(graph.mean) for row in self._layers.source_affine()]
        self.affine = NodeAffine(source, torch.from_numpy(self.graph.edges()).to(graph.mean))

    def run(self, seed: int, state: Path) -> DomainGraph:
        """The graph with scale and bias, and statistics behind them; goes on from `state`."""
        optimizer = torch.optim.Adam(
            self.affine.parameters(), self._options.lr, weight_decay=WEIGHT_DECAY
        )
        images = sum(len(domain.images) for domain in self._of_node)
        steps = max(1, round(self._options.epochs * images / IMAGES))
        begin, mean = self._resumed(optimizer, state)
        for step in tqdm(range(begin, steps), "scale and bias", leave=False, disable=None):
            generator = np.random.default_rng([seed, 33, step])
            loss, predicted = self.loss(int(generator.integers(len(self._of_node))), generator)
            parameters = [self.affine.scale, self.affine.bias]
            for parameter, gradient in zip(
                parameters, torch.autograd.grad(loss, parameters), strict=True
            ):
                parameter.grad = gradient
            optimizer.step()
            if predicted is not None:
                mean = predicted if mean is None else mean.lerp(predicted, FOLLOWED)
                if step >= WARM_UP:
                    require_classes(mean)
            if (step + 1) % SAVE_EVERY == 0 or step + 1 == steps:
                kept = {} if mean is None else {"mean": mean}
                tensors = training_tensors(self.affine, optimizer) | kept
                write_state(state, tensors, {"step": step + 1})
        return self._with_statistics(seed)

    def _resumed(self, optimizer: torch.optim.Optimizer, state: Path) -> tuple[int, Tensor | None]:
        if not state.exists():
            return 0, None
        header, tensors = read_state(state)
        mean = tensors.pop("mean", None)
        self.affine.load_state_dict(model_tensors(tensors))
        restore_optimizer(optimizer, tensors)
        return int(header["step"]), mean

    def loss(self, node: int, generator: np.random.Generator) -> tuple[Tensor, Tensor | None]:
        """Of a batch of one node; and the mean prediction where there are no labels."""
        domain = self._of_node[node]
        chosen = generator.permutation(len(domain.images))[:IMAGES]
        frames = domain.frames(self._loaded, chosen)
        logits = self._network.logits(frames, *self.affine.of(node))
        if domain.labels is not None:
            labels = torch.as_tensor(domain.labels[chosen], device=logits.device)
            return functional.cross_entropy(logits, labels.long()), None
        return mean_entropy(logits), logits.detach().softmax(1).mean(0)

    def _with_statistics(self, seed: int) -> DomainGraph:
        """The statistics of every node behind its own scale and bias."""
        scale, bias = self.affine.scale.detach(), self.affine.bias.detach()
        graph = self.graph.with_tensors(scale=scale, bias=bias)
        source, found = self._layers.read(), []
        try:
            for index, domain in enumerate(self._of_node):
                own = graph.own(index)
                self._layers.write(replace(source, scale=own.scale, bias=own.bias))
                found.append(statistics_of(self._loaded, domain, seed))
        finally:
            self._layers.write(source)
        means, variances = [s.mean for s in found], [s.variance for s in found]
        return graph.with_tensors(mean=torch.stack(means), variance=torch.stack(variances))
