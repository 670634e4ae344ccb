# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.predictive import (
    DomainGraph,
    Field,
    GraphConfig,
    Node,
    RegressionConfig,
    Schema,
)
from newfound_core.predictive.regression import additive_weights

LIGHTS, CAMERAS = ("day", "dusk", "night"), ("kinect", "webcam")
CELLS = [c for c in product(LIGHTS, CAMERAS) if c != ("night", "webcam")]
MISSING = {"light": "night", "camera": "webcam"}
ROWS = 7


def make(config=None, cells=CELLS, **options):
    generator = torch.Generator().manual_seed(0)
    nodes = [Node(f"{a}_{b}", {"light": a, "camera": b}, 20) for a, b in cells]
    schema = Schema((Field("light"), Field("camera"))).fitted([n.metadata for n in nodes])
    mean = torch.randn(len(nodes), ROWS, generator=generator, dtype=torch.float64)
    variance = torch.rand(len(nodes), ROWS, generator=generator, dtype=torch.float64) + 0.1
    return DomainGraph(schema, nodes, mean, variance, config or GraphConfig(**options))


def test_the_kernel_is_that_of_the_thesis():
    graph = make(described=RegressionConfig("kernel", sigma=0.1))
    found = graph.predict(MISSING)
    # One condition differs: distance 1; two: distance sqrt 2. Worked out without the code.
    edges = np.array([np.exp(-((a != "night") + (b != "webcam")) / (2 * 0.1)) for a, b in CELLS])
    edges /= edges.sum()
    np.testing.assert_allclose(found.statistics.mean, edges @ graph.mean.numpy(), atol=1e-12)
    np.testing.assert_allclose(
        found.statistics.variance, edges @ graph.variance.numpy(), atol=1e-12
    )
    assert found.distance == pytest.approx(1)
    assert not found.extrapolates


def test_total_variance_adds_the_spread_of_the_means():
    graph = make(described=RegressionConfig("kernel", total_variance=True))
    found = graph.predict(MISSING)
    weight, mean, variance = found.weights, graph.mean.numpy(), graph.variance.numpy()
    second = weight @ (variance + mean**2)
    np.testing.assert_allclose(
        found.statistics.variance, second - (weight @ mean) ** 2, atol=1e-12
    )


def test_additive_is_least_squares_of_mean_and_log_variance():
    graph = make(described=RegressionConfig("additive"))
    found = graph.predict(MISSING).statistics
    design = np.array([[1, a == "dusk", a == "night", b == "webcam"] for a, b in CELLS], float)
    asked = np.array([1, 0, 1, 1.0])
    for values, answer in (
        (graph.mean.numpy(), found.mean.numpy()),
        (np.log(graph.variance.numpy()), np.log(found.variance.numpy())),
    ):
        fitted = np.linalg.lstsq(design, values, rcond=None)[0]
        np.testing.assert_allclose(answer, asked @ fitted, atol=1e-9)


def test_ridge_penalises_all_but_the_intercept():
    graph = make(described=RegressionConfig("additive", ridge=0.3))
    found = graph.predict(MISSING).statistics.mean.numpy()
    columns = np.array([[a == v for v in LIGHTS] + [b == v for v in CAMERAS] for a, b in CELLS])
    design = np.column_stack([np.ones(len(CELLS)), columns / np.sqrt(2)])
    penalty = np.diag([0.0, *[0.3] * 5])
    fitted = np.linalg.solve(design.T @ design + penalty, design.T @ graph.mean.numpy())
    asked = np.array([1, 0, 0, 1, 0, 1]) / np.array([1, *[np.sqrt(2)] * 5])
    np.testing.assert_allclose(found, asked @ fitted, atol=1e-9)


def test_a_known_description_gets_its_own_statistics():
    graph = make(described=RegressionConfig("kernel", sigma=10.0))
    found = graph.predict({"light": "dusk", "camera": "kinect"})
    index = CELLS.index(("dusk", "kinect"))
    torch.testing.assert_close(found.statistics.mean, graph.mean[index])
    assert found.shares["dusk_kinect"] == 1
    assert found.distance == 0


@pytest.mark.parametrize("regression", ["kernel", "additive"])
@pytest.mark.parametrize(
    ("metadata", "note"),
    [
        ({"light": "night", "camera": "phone"}, "camera 'phone' is not among those known"),
        ({"camera": "webcam"}, "light is not known"),
        ({}, "camera is not known"),
    ],
)
def test_an_incomplete_description_gets_finite_statistics_and_says_what_was_missing(
    regression, metadata, note
):
    graph = make(described=RegressionConfig(regression))
    found = graph.predict(metadata)
    assert torch.isfinite(found.statistics.mean).all()
    assert (found.statistics.variance >= 0).all()
    assert any(note in each for each in found.notes)
    assert found.extrapolates == ("phone" in metadata.values())
    assert sum(found.shares.values()) == pytest.approx(1)


def test_with_nothing_known_it_is_the_mean_of_all():
    graph = make()
    torch.testing.assert_close(graph.predict({}).statistics.mean, graph.mean.mean(0))


def numbers(*values, regression="kernel"):
    nodes = [Node(str(v), {"gain": v}, 20) for v in values]
    schema = Schema((Field("gain", "number"),)).fitted([n.metadata for n in nodes])
    mean = torch.tensor([[float(v)] for v in values], dtype=torch.float64)
    config = GraphConfig(described=RegressionConfig(regression))
    return DomainGraph(schema, nodes, mean, torch.ones_like(mean), config)


@pytest.mark.parametrize("regression", ["kernel", "additive"])
@pytest.mark.parametrize("gain", [1e9, -1e200, 1e308])
def test_far_away_it_blends_into_the_mean_and_says_so_and_is_never_nan(regression, gain):
    graph = numbers(0.0, 1.0, 2.0, regression=regression)
    near = graph.predict({"gain": 2.5})
    assert not near.extrapolates
    far = graph.predict({"gain": gain})
    assert far.extrapolates
    assert far.statistics.mean.item() == pytest.approx(1)
    assert "blended with the mean of all" in far.notes[0]
    assert torch.isfinite(far.statistics.variance).all()


def test_a_category_that_no_domain_has_leaves_the_other_fields_in_force():
    nodes = [Node(f"{i}", {"gain": i / 8, "camera": "ab"[i % 2]}, 20) for i in range(9)]
    schema = Schema((Field("gain", "number"), Field("camera", weight=2.0)))
    mean = torch.arange(9, dtype=torch.float64)[:, None]
    graph = DomainGraph(
        schema.fitted([n.metadata for n in nodes]), nodes, mean, torch.ones_like(mean)
    )
    missing, unseen = graph.predict({"gain": 0.5}), graph.predict({"gain": 0.5, "camera": "phone"})
    np.testing.assert_allclose(unseen.weights, missing.weights, atol=1e-12)
    assert (missing.extrapolates, unseen.extrapolates) == (False, True)
    assert (missing.distance, unseen.distance) == (0, 2)


def test_additive_is_exact_where_fields_nearly_tell_the_same():
    generator = np.random.default_rng(3)
    gain = generator.uniform(size=6)
    rows = np.stack([gain, gain + 1e-4 * generator.normal(size=6)], 1)
    asked = rows[2] + 1e-5
    design = np.column_stack([np.ones(6), rows])
    expected = np.append(1, asked) @ np.linalg.pinv(design)
    np.testing.assert_allclose(additive_weights(asked, rows, 0.0), expected, atol=1e-11)
    # Up to nine digits they do: then only their sum is known, and nothing is made of the rest.
    rows = np.stack([gain, gain + 1e-9 * generator.normal(size=6)], 1)
    weights = additive_weights(np.array([0.7, 0.1]), rows, 0.0)
    assert weights @ gain == pytest.approx(0.4, abs=1e-6)


def test_additive_goes_on_along_a_number_a_little():
    assert numbers(0.0, 1.0, 2.0, regression="additive").predict(
        {"gain": 3.0}
    ).statistics.mean.item() == pytest.approx(3.0)


def test_a_graph_without_an_auxiliary_domain_is_refused():
    with pytest.raises(ConfigError, match="train-source"):
        make(cells=CELLS[:1])


def test_a_graph_of_some_nodes_knows_nothing_of_the_others():
    graph = make().without(CELLS.index(("night", "kinect")))
    assert graph.schema.field("light").values == ("day", "dusk")
    assert graph.predict({"light": "night", "camera": "kinect"}).extrapolates


def test_only_measured_fields_that_change_the_prediction_are_used():
    graph = make()
    assert not graph.uses_measured({})  # there are none
    nodes = [replace(n, metadata=n.metadata | {"luminance": float(i)})
             for i, n in enumerate(graph.nodes)]  # fmt: skip
    schema = Schema((*graph.schema.fields, Field("luminance", "number", measured=True)))
    schema = schema.fitted([n.metadata for n in nodes])
    more = DomainGraph(schema, nodes, graph.mean, graph.variance)
    assert more.uses_measured({"camera": "webcam"})
    assert not more.uses_measured({"light": "day", "camera": "webcam"})  # known exactly


def test_scale_and_bias_are_composed_as_the_thesis_does():
    graph = make(described=RegressionConfig("kernel", sigma=0.1))
    generator = np.random.default_rng(4)
    scale, bias = generator.normal(size=(2, len(CELLS), ROWS))
    graph = graph.with_tensors(scale=torch.from_numpy(scale), bias=torch.from_numpy(bias))
    apart = np.array([[(a != c) + (b != d) for c, d in CELLS] for a, b in CELLS])
    edges = np.exp(-apart / (2 * 0.1))
    edges /= edges.sum(1, keepdims=True)
    np.testing.assert_allclose(graph.edges(), edges, atol=1e-12)
    weight = np.exp(-np.array([(a != "night") + (b != "webcam") for a, b in CELLS]) / 0.2)
    weight /= weight.sum()
    new, known = graph.predict(MISSING), graph.predict({"light": "day", "camera": "kinect"})
    np.testing.assert_allclose(new.statistics.scale, weight @ scale, atol=1e-12)
    # A known domain has its own statistics, but shares scale and bias with its neighbours.
    np.testing.assert_allclose(known.statistics.bias, edges[0] @ bias, atol=1e-12)
    torch.testing.assert_close(known.statistics.mean, graph.mean[0])
    alone = graph.with_config(replace(graph.config, node_edges="none"))
    found = alone.predict({"light": "day", "camera": "kinect"}).statistics
    np.testing.assert_allclose(found.scale, scale[0], atol=1e-12)
    assert graph.without(1).scale.shape == (len(CELLS) - 1, ROWS)


def test_gaussian_weights_solve_the_equations_of_kriging():
    graph = make(described=RegressionConfig("gaussian", sigma=1.5, ridge=0.02))
    found = graph.predict(MISSING)
    apart = np.array([[(a != c) + (b != d) for c, d in CELLS] for a, b in CELLS])
    near = np.array([(a != "night") + (b != "webcam") for a, b in CELLS])
    count = len(CELLS)
    system = np.ones((count + 1, count + 1))  # with the multiplier of "the weights sum to 1"
    system[:count, :count] = np.exp(-apart / 3) + 0.02 * np.eye(count)
    system[count, count] = 0
    solved = np.linalg.solve(system, np.append(np.exp(-near / 3), 1.0))[:count]
    np.testing.assert_allclose(found.weights, solved, atol=1e-12)
    mean, variance = graph.mean.numpy(), graph.variance.numpy()
    np.testing.assert_allclose(found.statistics.mean, solved @ mean, atol=1e-12)
    np.testing.assert_allclose(
        found.statistics.variance, np.exp(solved @ np.log(variance)), atol=1e-12
    )
    with pytest.raises(ConfigError, match="ridge above 0"):
        RegressionConfig("gaussian")
