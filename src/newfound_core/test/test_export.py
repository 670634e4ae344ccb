# SPDX-License-Identifier: Apache-2.0
"""Exported graphs compute what the model computes, for any number of images."""

from collections import OrderedDict

import pytest
import torch
from torch import nn

from newfound_core import export
from newfound_core.backbones import Backbone, build_backbone
from newfound_core.backbones.contract import global_pool
from newfound_core.classifier import Classifier
from newfound_core.errors import ConfigError, ExportError
from newfound_core.export import InferenceGraph, export_onnx, export_program
from newfound_core.latent import LatentClassifier, LatentConfig
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.places import BsfClassifier, PlaceClassifier, WbnClassifier

EXAMPLE = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def block(before, after):
    layers = OrderedDict(
        conv=nn.Conv2d(before, after, 3, 2, 1), norm=nn.BatchNorm2d(after), act=nn.ReLU()
    )
    return nn.Sequential(layers)


def network():
    """A backbone as small as the contract allows, since tracing takes its time per layer."""
    stages = OrderedDict(one=block(4, 8), two=block(8, 16))
    return Backbone(block(3, 4), stages, global_pool(), stem_channels=4, feature_dim=16)


def open_world():
    backbone = network()
    return OpenWorldModel(backbone, build_head("bdoc", backbone.feature_dim))


MODELS = {
    "classifier": (lambda: Classifier(network(), 5), ("logits",)),
    "bn": (lambda: PlaceClassifier(network(), 5), ("logits",)),
    "wbn": (
        lambda: WbnClassifier(network(), 5, 3),
        ("logits", "domain_logits", "domain_weights"),
    ),
    "bsf": (
        lambda: BsfClassifier(network(), 5, 3),
        ("logits", "domain_logits", "domain_weights"),
    ),
    "mda": (
        lambda: LatentClassifier(network(), 5, LatentConfig(1, 3)),
        ("logits", "domain_logits", "domain_weights"),
    ),
    "mda by centres": (
        lambda: LatentClassifier(network(), 5, LatentConfig(0, 3, assignment="centres")),
        ("logits", "domain_logits", "domain_weights"),
    ),
    "open world": (open_world, ("embedding",)),
}


def lively(model):
    """A model of which each domain has statistics of its own."""
    torch.manual_seed(0)
    for module in model.modules():
        if hasattr(module, "running_var"):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model.eval()


def tensors_of(output):
    return [t for t in output if t.numel()] if isinstance(output, tuple) else [output]


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_a_torch_export_program_computes_the_same_for_any_batch(name):
    make, outputs = MODELS[name]
    model = lively(make())
    program = export_program(model, EXAMPLE[:1])
    for count in (1, 3, 8):
        images = torch.randn(count, 3, 32, 32)
        expected = model(images)
        expected = (
            [t for t in expected if t.numel()] if isinstance(expected, tuple) else [expected]
        )
        found = program.module()(images)
        assert len(found) == len(outputs)
        for here, there in zip(found, expected, strict=True):
            torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_onnx_runtime_computes_the_same_for_any_batch(name, tmp_path):
    make, outputs = MODELS[name]
    model = lively(make())
    report = export_onnx(model, EXAMPLE, tmp_path / "deep" / "model.onnx")
    assert report.outputs == outputs
    assert report.largest_difference < 1e-4
    assert report.size_bytes == report.path.stat().st_size
    assert [path.name for path in report.path.parent.iterdir()] == ["model.onnx"]

    import onnxruntime

    session = onnxruntime.InferenceSession(report.path, providers=["CPUExecutionProvider"])
    assert [entry.name for entry in session.get_inputs()] == ["images"]
    assert tuple(entry.name for entry in session.get_outputs()) == outputs
    for count in (1, 7):
        images = torch.randn(count, 3, 32, 32)
        with torch.no_grad():
            first = tensors_of(model(images))[0]
        found = torch.from_numpy(session.run(None, {"images": images.numpy()})[0])
        torch.testing.assert_close(found, first, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_the_default_backbone_with_its_branch_goes_to_onnx(tmp_path):
    model = lively(WbnClassifier(build_backbone("efficientnet_lite0"), 5, 3))
    report = export_onnx(model, torch.randn(1, 3, 224, 224), tmp_path / "model.onnx")
    assert report.largest_difference < 1e-4


def test_tracing_leaves_no_trace_in_the_model():
    model = lively(WbnClassifier(network(), 5, 3)).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    export_program(model, EXAMPLE)
    assert model.training
    assert model.assignment.weights is None
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_a_graph_of_a_model_in_training_is_in_evaluation_throughout():
    graph = InferenceGraph(Classifier(network(), 5).train(), EXAMPLE)
    assert not any(module.training for module in graph.modules())


def perturbed(graph):
    return lambda images: [output + 0.01 for output in graph(images)]


def poisoned(graph):
    return lambda images: [output * torch.nan for output in graph(images)]


def fixed_batch(graph):
    return lambda images: [output[:2] for output in graph(images)]


@pytest.mark.parametrize("engine", [perturbed, poisoned, fixed_batch])
def test_an_engine_that_computes_something_else_is_found_out(engine):
    graph = InferenceGraph(Classifier(network(), 5), EXAMPLE)
    with pytest.raises(ExportError, match=r"computes logits of . images differently"):
        export._check(engine(graph), graph, EXAMPLE, 1e-4, "the engine")


def test_nothing_is_written_if_the_outputs_differ(tmp_path, monkeypatch):
    model = Classifier(network(), 5)
    graph = InferenceGraph(model, EXAMPLE)
    monkeypatch.setattr(export, "_require_tools", lambda: None)
    monkeypatch.setattr(export, "_to_onnx", lambda *_: b"onnx")
    monkeypatch.setattr(export, "_onnx_runtime", lambda *_: perturbed(graph))
    with pytest.raises(ExportError, match="Nothing was exported"):
        export_onnx(model, EXAMPLE, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []

    monkeypatch.setattr(export, "_onnx_runtime", lambda *_: graph)
    report = export_onnx(model, EXAMPLE, tmp_path / "model.onnx")
    assert report.path.read_bytes() == b"onnx"
    assert report.largest_difference == 0


def test_a_model_that_depends_on_values_cannot_be_traced():
    class Moody(nn.Module):
        def forward(self, images):
            return images.mean((2, 3)) if images.sum() > 0 else images.amax((2, 3))

    with pytest.raises(ExportError, match="Moody cannot be traced"):
        export_program(Moody(), EXAMPLE)


@pytest.mark.parametrize(
    "example", [torch.zeros(3, 32, 32), torch.zeros(1, 1, 32, 32), torch.zeros(1, 3, 8, 8).byte()]
)
def test_an_example_that_is_no_batch_of_images_is_refused(example):
    with pytest.raises(ConfigError, match="example"):
        export_program(Classifier(network(), 5), example)


def test_the_difference_is_relative_to_large_values_and_absolute_below_one():
    assert export.relative_difference(torch.tensor([101.0]), torch.tensor([100.0])) == 0.01
    assert export.relative_difference(torch.tensor([0.25]), torch.tensor([0.5])) == 0.25
