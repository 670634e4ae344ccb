# SPDX-License-Identifier: Apache-2.0
"""Choice of the regression without labels: predict every known domain from the others.

The score of a choice is the drift between predicted and measured statistics (symmetric KL, as
`onda.statistics.measure_drift`), averaged over domains. Measured fields of the domain left out are
those of a few of its images at a time, as a robot has them when it arrives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from newfound_core.onda.statistics import NormalizationLayers, Statistics, measure_drift
from newfound_core.predictive.graph import DomainGraph, GraphConfig, Known
from newfound_core.predictive.measured import average
from newfound_core.predictive.metadata import Metadata
from newfound_core.predictive.regression import RegressionConfig

FEWEST_NODES = 3  # to leave one out of
FRAMES = 5  # images behind the measured fields of a domain left out
DRAWS = 3
STEADY = 0.1  # of a field's range: usual changes where it was the same in all images of a domain
_KERNELS = tuple(RegressionConfig("kernel", sigma) for sigma in (0.03, 0.1, 0.3))
_RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0)
_GAUSSIANS = tuple(
    RegressionConfig("gaussian", sigma, ridge)
    for sigma in (0.5, 1.0, 2.0, 4.0)
    for ridge in (0.01, 0.1)
)
CANDIDATES: dict[Known, tuple[RegressionConfig, ...]] = {
    "described": (
        *_KERNELS,
        *(RegressionConfig("additive", ridge=ridge) for ridge in (0.0, *_RIDGES[1:])),
        *_GAUSSIANS,
    ),
    "measured": (
        *_KERNELS,
        *(RegressionConfig("additive", ridge=ridge) for ridge in _RIDGES),
        *_GAUSSIANS,
    ),
    "both": tuple(
        replace(one, measured_weight=weight)
        for weight in (0.0, 0.3, 0.5, 1.0, 2.0)
        for one in (
            RegressionConfig("kernel"),
            *(RegressionConfig("additive", ridge=ridge) for ridge in _RIDGES),
            *_GAUSSIANS,
        )
    ),
}

Measurements = Sequence[dict[str, float]]  # of some images of one domain


@dataclass(frozen=True)
class LeftOut:
    """A node, the graph as if it had never been seen, and descriptions to predict it from."""

    own: Statistics
    others: DomainGraph
    queries: Sequence[Metadata]


def leave_one_out(
    left_out: Sequence[LeftOut], layers: NormalizationLayers, config: GraphConfig
) -> float:
    """Mean drift between each node and its prediction from the others, in nats."""
    found = []
    for node in left_out:
        others = node.others.with_config(config)
        for metadata in node.queries:
            predicted = others.predict(metadata).statistics
            found.append(measure_drift(layers, node.own, predicted).mean)
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
    without = [graph.without(index) for index in range(len(graph.nodes))]
    for kind, candidates in CANDIDATES.items():
        if (kind != "described" and not graph.schema.measured) or (
            kind != "measured" and not graph.schema.described
        ):
            continue
        left_out = [
            LeftOut(graph.own(i), without[i], _queries(graph, i, kind, measured, seed))
            for i, measured in enumerate(measurements)
        ]
        tried = {
            _name(candidate): leave_one_out(
                left_out, layers, config.with_regression(kind, candidate)
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
    # What a camera reports may be written down once for a domain: then a tenth of its range is
    # usual.
    still = np.array([STEADY * (f.high - f.low) or 1.0 for f in graph.schema.measured])
    covariance += np.diag(np.where(np.ptp(within, axis=0) < 1e-9, still**2, 0.0))
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

    A Mahalanobis distance, divided by the root of their number: 1 is usual within a domain. A
    field that is not known of both has not moved.
    """
    both = before.keys() & now.keys()
    moved = [
        float(now[f.name]) - float(before[f.name]) if f.name in both else 0.0
        for f in graph.schema.measured
    ]
    white = np.array(graph.config.whitening) @ np.array(moved)
    return float(np.sqrt(np.mean(np.square(white))))


def _name(config: RegressionConfig) -> str:
    shown = {"sigma": config.sigma, "ridge": config.ridge}
    shown.pop({"kernel": "ridge", "additive": "sigma"}.get(config.regression, ""), None)
    values = ", ".join(f"{name} {value:g}" for name, value in shown.items())
    return f"{config.regression}, {values}, measured weight {config.measured_weight:g}"
