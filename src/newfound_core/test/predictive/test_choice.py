# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.models import load_model
from newfound_core.onda.statistics import NormalizationLayers
from newfound_core.predictive.choice import change, choose_config, with_changes
from newfound_core.predictive.measured import NAMES, average, measure
from newfound_core.testing import tiny_adagraph


@pytest.fixture
def loaded(tmp_path):
    return load_model(tiny_adagraph(tmp_path / "adagraph"))


def measurements(graph):
    generator = np.random.default_rng(0)
    return [
        [{n: node.metadata[n] + 0.2 * generator.normal() for n in NAMES} for _ in range(20)]
        for node in graph.nodes
    ]


def test_where_conditions_add_up_the_additive_regression_is_chosen(loaded):
    graph = loaded.model.domain_graph()
    generator = torch.Generator().manual_seed(1)
    light, camera = torch.randn(2, 2, graph.mean.shape[1], generator=generator)
    mean = torch.stack([light[i // 2] + camera[i % 2] for i in range(4)])
    graph.mean, graph.variance = mean, torch.ones_like(mean)
    layers = NormalizationLayers(loaded.model)
    config, scores = choose_config(graph, layers, measurements(graph))
    assert config.described.regression == "additive"
    assert scores["described"]["additive, ridge 0, measured weight 1"] < 1e-3
    assert set(scores) == {"described", "measured", "both"}


def test_a_change_within_a_domain_stays_below_the_threshold_and_one_of_light_above(loaded):
    graph = loaded.model.domain_graph()
    found = measurements(graph)
    graph = with_changes(graph, found)
    limit = graph.config.change_threshold
    day, night = graph.nodes[0].metadata, graph.nodes[2].metadata
    assert change(graph, day, average(found[0][:2])) < limit
    assert change(graph, day, night) > limit
    still = with_changes(graph, [[dict(of[0])] * 3 for of in found])
    assert np.isfinite(change(still, day, night))  # footage of one still image does not vary


def test_measured_fields_tell_light_and_colour():
    grey = np.full((32, 32, 3), 128, np.uint8)
    red = grey * np.array([1.5, 0.5, 0.5])
    dark = measure((grey // 4).astype(np.uint8))
    assert dark["luminance"] < measure(grey)["luminance"] - 1
    assert measure(red.astype(np.uint8))["red_blue"] == pytest.approx(np.log(3), abs=0.02)
    assert measure(grey)["saturation"] == 0
    black = measure(np.zeros((32, 32, 3), np.uint8))
    assert all(np.isfinite(v) for v in black.values())
    one_pixel = measure(np.zeros((1, 1, 3), np.uint8))
    assert all(np.isfinite(v) for v in one_pixel.values())
