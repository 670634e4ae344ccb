# SPDX-License-Identifier: Apache-2.0
"""Choice of the regression without labels: predict every known domain from the others.

The score of a choice is the drift between predicted and measured statistics (symmetric KL, as
`onda.statistics.measure_drift`), averaged over domains. Measured fields of the domain left out are
those of a few of its images at a time, as a robot has them when it arrives.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from newfound_core.onda.statistics import NormalizationLayers, Statistics, measure_drift
from newfound_core.predictive.graph import DomainGraph, GraphConfig, Known
from newfound_core.predictive.measured import average
from newfound_core.predictive.metadata import Metadata
from newfound_core.predictive.regression import RegressionConfig

FEWEST_NODES = 3  # to leave one out of
FRAMES = 5  # images behind the measured fields of a domain left out
DRAWS = 3
_KERNELS = tuple(RegressionConfig("kernel", sigma) for sigma in (0.03, 0.1, 0.3))
_RIDGES = (0.03, 0.1, 0.3, 1.0)
CANDIDATES: dict[Known, tuple[RegressionConfig, ...]] = {
    "described": (
        *_KERNELS,
        *(RegressionConfig("additive", ridge=ridge) for ridge in (0.0, *_RIDGES)),
    ),
    "measured": (
        *_KERNELS,
        *(RegressionConfig("additive", ridge=ridge) for ridge in _RIDGES),
    ),
    "both": tuple(
        replace(one, measured_weight=weight)
        for weight in (0.0, 0.3, 0.5, 1.0)
        for one in (
            RegressionConfig("kernel"),
            *(RegressionConfig("additive", ridge=ridge) for ridge in _RIDGES),
        )
    ),
}

Measurements = Sequence[dict[str, float]]  # of some images of one domain


def leave_one_out(
    graph: DomainGraph, layers: NormalizationLayers, queries: Sequence[Sequence[Metadata]]
) -> float:
    """Mean drift between each node and its prediction from the others, in nats.

    `queries` are descriptions of each node, which is predicted from each of them.
    """
    found = []
    for index, of_node in enumerate(queries):
        others = graph.without(index)
        own = Statistics(graph.mean[index], graph.variance[index])
        for metadata in of_node:
            predicted = others.predict(metadata).statistics
            found.append(measure_drift(layers, own, predicted).mean)
    return float(np.mean(found))


def choose_config(
    graph: DomainGraph,
    layers: NormalizationLayers,
    measurements: Sequence[Measurements],
    seed: int = 0,
) -> tuple[GraphConfig, dict[str, dict[str, float]]]:
    """The best candidate for each kind of knowledge, and the scores of all."""
    config = graph.config
    scores: dict[str, dict[str, float]] = {}
    if len(graph.nodes) < FEWEST_NODES:
        return config, {}
    for kind, candidates in CANDIDATES.items():
        if (kind != "described" and not graph.schema.measured) or (
            kind != "measured" and not graph.schema.described
        ):
            continue
        queries = [_queries(graph, i, kind, m, seed) for i, m in enumerate(measurements)]
        tried = {
            _name(candidate): leave_one_out(
                graph.with_config(config.with_regression(kind, candidate)), layers, queries
            )
            for candidate in candidates
        }
        best = min(candidates, key=lambda candidate: tried[_name(candidate)])
        config, scores[kind] = config.with_regression(kind, best), tried
    if config.both.measured_weight == 0:  # then it is what descriptions alone are best with
        config = replace(config, both=replace(config.described, measured_weight=0.0))
    return config, scores


def _queries(
    graph: DomainGraph, index: int, kind: Known, measured: Measurements, seed: int
) -> list[Metadata]:
    known = graph.nodes[index].metadata
    written = {f.name: known[f.name] for f in graph.schema.described}
    if kind == "described":
        return [written]
    generator = np.random.default_rng([seed, index])
    draws = [_some(measured, generator) for _ in range(DRAWS)]
    return [draw if kind == "measured" else written | draw for draw in draws]


def _some(measured: Measurements, generator: np.random.Generator) -> dict[str, float]:
    chosen = generator.permutation(len(measured))[:FRAMES]
    return average([measured[i] for i in chosen])


def with_changes(graph: DomainGraph, measurements: Sequence[Measurements]) -> DomainGraph:
    """The graph that also knows which changes of measured fields mean another domain."""
    names = [field.name for field in graph.schema.measured]
    each = [np.array([[m[name] for name in names] for m in of]) for of in measurements]
    within = np.concatenate([values - values.mean(0) for values in each])
    covariance = within.T @ within / len(within)
    covariance += np.diag(1e-3 * covariance.diagonal() + 1e-8)  # fields that are nearly one
    root = np.linalg.cholesky(np.linalg.inv(covariance)).T
    known = replace(graph.config, whitening=tuple(map(tuple, root.tolist())))
    graph, generator = graph.with_config(known), np.random.default_rng(0)
    found = [
        change_of_all(graph, average(of), [of[i] for i in generator.permutation(len(of))[:2]])
        for of in measurements
        for _ in range(500)
    ]
    limit = max(1.0, float(np.quantile(found, 0.999)))
    return graph.with_config(replace(known, change_threshold=limit))


def change_of_all(graph: DomainGraph, before: Metadata, images: Measurements) -> float:
    """The smallest change of several images: they are of another domain if all of them are."""
    return min(change(graph, before, image) for image in images)


def change(graph: DomainGraph, before: Metadata, now: Metadata) -> float:
    """How far measured fields have moved, by how they vary within a domain.

    A Mahalanobis distance, divided by the root of their number: 1 is usual within a domain.
    """
    moved = [float(now[f.name]) - float(before[f.name]) for f in graph.schema.measured]
    white = np.array(graph.config.whitening) @ np.array(moved)
    return float(np.sqrt(np.mean(np.square(white))))


def _name(config: RegressionConfig) -> str:
    kernel = config.regression == "kernel"
    shown = f"sigma {config.sigma:g}" if kernel else f"ridge {config.ridge:g}"
    return f"{config.regression}, {shown}, measured weight {config.measured_weight:g}"
