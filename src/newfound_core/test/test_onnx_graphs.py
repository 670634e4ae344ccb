# SPDX-License-Identifier: Apache-2.0
"""Graphs whose weights are exchanged: nothing is traced twice, and nothing wrong is kept."""

import onnxruntime
import pytest
import torch
from torch import nn

from newfound_core import onnx_graphs
from newfound_core.onda.folding import fold
from newfound_core.onda.statistics import NormalizationLayers
from newfound_core.onnx_graphs import OnnxGraphs
from newfound_core.onnx_runtime import INPUT_NAME

EXAMPLE = torch.zeros(1, 3, 16, 16)


def network(seed, classes=4, stride=2):
    torch.manual_seed(seed)
    body = nn.Conv2d(3, 8, 3, stride), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
    made = nn.Sequential(*body, nn.Flatten(), nn.Linear(8, classes))
    made[1].running_mean.normal_()
    made[1].running_var.uniform_(0.5, 2)
    return made.eval()


def same(graph, model):
    images = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(9))
    session = onnxruntime.InferenceSession(graph.content)
    (found,) = session.run(list(graph.names), {INPUT_NAME: images.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(found), model(images), rtol=1e-4, atol=1e-5)
    return found.shape


@pytest.fixture
def traced(monkeypatch):
    """The models that were traced."""
    trace, models = onnx_graphs.trace_onnx, []
    monkeypatch.setattr(
        onnx_graphs,
        "trace_onnx",
        lambda model, example: models.append(model) or trace(model, example),
    )
    return models


def test_other_weights_and_another_number_of_classes_are_not_traced_again(traced):
    graphs, first = OnnxGraphs(), network(1)
    assert same(graphs.of(first, EXAMPLE), first) == (3, 4)
    for other in (network(2), network(3, classes=7), network(4, classes=2)):
        assert same(graphs.of(other, EXAMPLE), other)[1] == other[-1].out_features
    assert len(traced) == 1


def test_a_network_of_the_same_names_that_computes_otherwise_is_traced_anew(traced):
    graphs, first, other = OnnxGraphs(), network(1), network(2, stride=1)
    graphs.of(first, EXAMPLE)
    same(graphs.of(other, EXAMPLE), other)
    assert len(traced) == 2
    same(graphs.of(network(3, stride=1), EXAMPLE), network(3, stride=1))
    assert len(traced) == 2


def test_a_folded_network_has_the_graph_of_those_before_and_keeps_its_weights(traced):
    graphs = OnnxGraphs()
    graphs.of(network(1), EXAMPLE)
    for seed in (2, 3):
        model = network(seed, classes=5)
        twin = fold(NormalizationLayers(model), EXAMPLE)
        same(graphs.of_folded(twin, EXAMPLE), twin.network)
        same(graphs.of_folded(twin, EXAMPLE), model)
    assert len(traced) == 1


def test_another_size_is_another_graph_and_only_some_are_kept(traced, monkeypatch):
    monkeypatch.setattr(onnx_graphs, "_KEPT", 1)
    graphs, model = OnnxGraphs(), network(1)
    for size in (16, 24, 16):
        graphs.of(model, torch.zeros(1, 3, size, size))
    assert len(traced) == 3
