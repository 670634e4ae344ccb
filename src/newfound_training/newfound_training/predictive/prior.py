# SPDX-License-Identifier: Apache-2.0
"""How many frames a prediction is worth when ONDA goes on from it, chosen without labels."""

from collections.abc import Sequence

import numpy as np
import torch

from newfound_core.models import LoadedModel
from newfound_core.onda import OndaConfig
from newfound_core.onda.estimators import BatchEstimator
from newfound_core.onda.safeguards import Prior
from newfound_core.onda.statistics import NormalizationLayers, Statistics, measure_drift
from newfound_core.predictive.choice import FEWEST_NODES, Measurements
from newfound_core.predictive.graph import DomainGraph
from newfound_core.predictive.measured import average
from newfound_training.predictive.nodes import DomainImages

# Frames that a prediction may stand for. Fewer would be better for images at random, but frames of
# a robot are alike: a prediction counts as much as the first five of them at least.
PRIORS = (5.0, 10.0, 20.0, 40.0, 80.0)


def choose_prior(
    loaded: LoadedModel,
    graph: DomainGraph,
    domains: Sequence[DomainImages],
    measured: Sequence[Measurements],
    *,
    frames_per_update: int,
    seed: int,
) -> tuple[tuple[float, ...] | None, dict[str, float]]:
    """How many frames a prediction is worth in each layer, judged on domains left out, unlabelled.

    `domains` and `measured` are those of each node. The prediction for each is followed by the
    first updates from some of its images, as ONDA would do it; the choice whose statistics then
    are nearest to the domain's own is best. A few frames tell the first layers what light it is;
    the last ones depend on which things they show.
    """
    if len(graph.nodes) < FEWEST_NODES:
        return None, {}
    layers = NormalizationLayers(loaded.model, getattr(loaded.model, "adaptive_layers", "all"))
    estimator, n = BatchEstimator(layers), frames_per_update
    drifts: dict[float, list[dict[str, float]]] = {prior: [] for prior in PRIORS}
    for index, (node, domain) in enumerate(zip(graph.nodes, domains, strict=True)):
        order = np.random.default_rng([seed, 32, index]).permutation(len(domain.images))
        some = average([measured[index][i] for i in order[:5]])
        query = {f.name: node.metadata[f.name] for f in graph.schema.described} | some
        start = graph.without(index).predict(query).statistics
        updates = []
        for begin, end in ((0, n // 2), (n // 2, n // 2 + n), (n // 2 + n, n // 2 + 2 * n)):
            if end - begin >= 2 and end <= len(order):
                frames = domain.frames(loaded, order[begin:end])
                updates.append((end - begin, estimator.estimate([frames], start).statistics))
        for frames_worth, drift in drifts.items():
            prior = Prior(torch.tensor(frames_worth))
            drift.extend(_drifts(layers, graph.own(index), start, updates, prior))
    return _least(drifts, layers)


def _drifts(
    layers: NormalizationLayers,
    own: Statistics,
    now: Statistics,
    updates: list[tuple[int, Statistics]],
    prior: Prior,
) -> list[dict[str, float]]:
    """The drift of each layer from a domain's own statistics after each update."""
    found = []
    for count, update in updates:
        now = now.lerp(update, prior.momentum(OndaConfig().momentum, count))
        found.append(measure_drift(layers, own, now).per_layer)
    return found


def _least(
    drifts: dict[float, list[dict[str, float]]], layers: NormalizationLayers
) -> tuple[tuple[float, ...], dict[str, float]]:
    """The best choice in each layer, and the drift of each choice for all and of the best."""
    adapting = [layers.names[index] for index in layers.adapting]
    means = {p: [np.mean([d[name] for d in of]) for name in adapting] for p, of in drifts.items()}
    table = np.array(list(means.values()))  # [choices, adapting layers]
    best = dict(zip(adapting, table.argmin(0), strict=True))
    scores = {f"{prior:g}": float(np.mean(of)) for prior, of in means.items()}
    scores["each layer its own"] = float(table.min(0).mean())
    return tuple(PRIORS[best.get(name, 0)] for name in layers.names), scores
