# SPDX-License-Identifier: Apache-2.0
"""The adaptive classifier with a graph of domains, over real DDS."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from std_srvs.srv import Trigger

from newfound_core.models import load_model, save_model
from newfound_core.onda.statistics import NormalizationLayers
from newfound_core.predictive import (
    AdaGraphClassifier,
    DomainGraph,
    Field,
    RegressionConfig,
    Schema,
)
from newfound_core.predictive.measured import average
from newfound_core.testing import tiny_adagraph
from newfound_msgs.msg import AdaptationStatus, Classification, DomainMetadata
from newfound_nodes.adaptive_classifier import AdaptiveClassifier
from newfound_runtime.testing import UNCONFIGURED, eventually

ROOT = Path(__file__).parents[4]
NODE = "/adaptive_classifier"


@pytest.fixture
def running(ros, stream, tmp_path):
    def start(*, stem=False, **parameters):
        camera = stream()
        answers = ros.collect(Classification, f"{NODE}/classification")
        folder = tiny_adagraph(tmp_path / "adagraph", stem=stem)
        chosen = {"checkpoint": str(folder), "state_dir": str(tmp_path / "state")}
        # Noise is no domain of the graph: no jump unless a test asks for it.
        chosen |= {"frames_per_update": 8, "change_threshold": 1e6}
        node = ros.started(AdaptiveClassifier, **chosen | parameters)
        return node, camera.connect(node), answers

    return start


def served(node):
    return NormalizationLayers(node.loaded.model).read().mean


def graph_of(node):
    return load_model(node.param("checkpoint")).model.domain_graph()


DAY_WEBCAM = {"metadata.light": "day", "metadata.camera": "webcam"}


def test_parameters_describe_the_domain_it_starts_in(running, ros):
    node, camera, _ = running(**DAY_WEBCAM)
    graph = graph_of(node)
    torch.testing.assert_close(served(node), graph.mean[1])
    heard = ros.collect(AdaptationStatus, f"{NODE}/adaptation")
    camera.send(node)
    status = eventually(lambda: heard and heard[-1])
    assert status.last_reset_reason == AdaptationStatus.RESET_PREDICTED
    assert status.node_names[0] == "day_webcam"
    assert sum(status.node_weights) == pytest.approx(1)
    assert status.domain_distance == 0
    assert "predicted near day_webcam" in status.message


@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_a_message_with_other_metadata_jumps_between_two_frames(running, ros, backend):
    more = {"estimator": "streaming", "balanced": False} if backend == "onnx" else {}
    node, camera, answers = running(backend=backend, **DAY_WEBCAM, **more)
    graph = graph_of(node)
    camera.send(node)
    publisher = ros.publisher(DomainMetadata, f"{NODE}/domain")
    ros.connected(publisher)
    publisher.publish(DomainMetadata(names=["light"], values=["night"]))
    eventually(lambda: torch.allclose(served(node), graph.mean[3]), "a jump")
    camera.send(node)
    answer = eventually(lambda: len(answers) == 2 and answers[-1])
    assert math.isfinite(answer.confidence)


def test_messages_that_make_no_sense_are_ignored_with_a_warning(running, ros):
    node, _, _ = running(**DAY_WEBCAM)
    graph = graph_of(node)
    publisher = ros.publisher(DomainMetadata, f"{NODE}/domain")
    ros.connected(publisher)
    publisher.publish(DomainMetadata(names=["lihgt"], values=["night"]))
    publisher.publish(DomainMetadata(names=["light", "camera"], values=["night"]))
    eventually(lambda: ros.logged("did you mean 'light'?"))
    eventually(lambda: ros.logged("2 names, but 1 values"))
    torch.testing.assert_close(served(node), graph.mean[1])


def test_a_parameter_can_be_set_while_it_runs_and_a_wrong_one_is_refused(running, ros):
    node, _, _ = running(**{"metadata.camera": "webcam"})
    graph = graph_of(node)
    assert ros.set(NODE, **{"metadata.light": "night"}).successful
    eventually(lambda: torch.allclose(served(node), graph.mean[3]), "a jump")
    refused = ros.set(NODE, **{"metadata.luminance": "bright"})
    assert not refused.successful
    assert "luminance must be a finite number" in refused.reason
    torch.testing.assert_close(served(node), graph.mean[3])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"metadata.lihgt": "day"}, "did you mean 'light'?"),
        ({"metadata.luminance": "bright"}, "luminance must be a finite number"),
    ],
)
def test_misspelt_metadata_keep_the_node_unconfigured(ros, tmp_path, given, reason):
    folder = tiny_adagraph(tmp_path / "adagraph")
    node = ros.add(AdaptiveClassifier, checkpoint=str(folder), **given)
    eventually(lambda: reason in node.last_error, reason)
    eventually(lambda: node.state() == UNCONFIGURED)


def test_metadata_for_a_model_without_a_graph_keep_the_node_unconfigured(ros, checkpoint):
    given = {"metadata.light": "day"}
    node = ros.add(AdaptiveClassifier, checkpoint=str(checkpoint()), **given)
    eventually(lambda: "has no graph of domains" in node.last_error)
    eventually(lambda: node.state() == UNCONFIGURED)


def test_with_nothing_written_down_the_frames_are_measured(running):
    node, camera, _ = running()
    before = served(node)
    camera.send(node)
    assert not torch.equal(served(node), before)
    assert node._adaptation.prediction is not None


def test_a_sudden_change_of_light_predicts_anew_and_a_steady_stream_does_not(running):
    node, camera, _ = running(change_threshold=3.0, frames_per_update=100)
    camera.send(node, 8)
    bright, when = node._adaptation.prediction, node._adaptation.report().last_reset
    camera.send(node, 4)
    assert node._adaptation.report().last_reset == when
    camera.send(node, 2, brightness=0.1)
    assert node._adaptation.report().last_reset > when
    dark = node._adaptation.prediction
    assert dark.shares["night_kinect"] + dark.shares["night_webcam"] > (
        bright.shares["night_kinect"] + bright.shares["night_webcam"]
    )


@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_stem_fields_tell_the_light_with_nothing_written_down(running, picture, backend):
    more = {"estimator": "streaming", "balanced": False} if backend == "onnx" else {}
    node, camera, _ = running(
        stem=True, backend=backend, change_threshold=1.5, frames_per_update=4, **more
    )
    camera.send(node, 8)
    eventually(node.settled)
    bright, when = node._adaptation.prediction, node._adaptation.report().last_reset
    assert next(iter(bright.shares)).startswith("day")
    loaded = load_model(node.param("checkpoint"))
    measure = loaded.model.measurer(loaded.metadata.preprocessing)
    first = [np.array(picture(n).data, np.uint8).reshape(48, 64, 3) for n in range(1, 6)]
    expected = graph_of(node).predict(average([measure(image) for image in first]))
    np.testing.assert_allclose(bright.weights, expected.weights, atol=1e-5)
    camera.send(node, 2, brightness=0.1)
    assert node._adaptation.report().last_reset > when
    assert next(iter(node._adaptation.prediction.shares)).startswith("night")


def test_a_light_that_comes_back_goes_on_where_it_was_left(running):
    node, camera, _ = running(change_threshold=3.0, frames_per_update=4, momentum=0.5)
    camera.send(node, 8)
    eventually(node.settled)
    # Up to a frame that made an update: no other is due with the first dark frame, before which
    # nothing tells that the light has changed.
    before = node._adaptation.report().updates
    while node._adaptation.report().updates == before:
        camera.send(node)
        eventually(node.settled)
    bright = node._adaptation.onda.online.mean
    camera.send(node, 7, brightness=0.1)
    eventually(node.settled)
    assert not torch.equal(node._adaptation.onda.online.mean, bright)
    camera.send(node, 2)
    torch.testing.assert_close(node._adaptation.onda.online.mean, bright)


def test_while_frozen_nothing_jumps(running, ros):
    node, camera, _ = running(change_threshold=3.0)
    camera.send(node, 6)
    assert ros.set(NODE, freeze=True).successful
    when = node._adaptation.report().last_reset
    camera.send(node, 4, brightness=0.1)
    assert node._adaptation.report().last_reset == when


def test_a_saved_state_goes_before_a_prediction(running, ros):
    node, camera, _ = running(persist_adaptation=True, **DAY_WEBCAM)
    camera.send(node)
    graph = graph_of(node)
    torch.testing.assert_close(served(node), graph.mean[1])
    ros.change(NODE, "deactivate")
    ros.change(NODE, "cleanup")
    ros.set(NODE, **{"metadata.light": "night"})
    ros.change(NODE, "configure")
    assert node._adaptation.prediction is None
    torch.testing.assert_close(served(node), graph.mean[1])


def test_the_shipped_model_starts_with_the_shipped_parameters(ros):
    file = ROOT / "config" / "predictive.yaml"
    [values] = yaml.safe_load(file.read_text()).values()
    node = ros.started(AdaptiveClassifier, **values["ros__parameters"])
    shares = node._adaptation.prediction.shares
    assert len(shares) == 12
    assert next(iter(shares)).endswith("_kinect_white")


def test_scale_and_bias_are_refined_if_asked_for_and_a_reset_takes_them_back(running, ros):
    node, camera, _ = running(refine_rate=0.01, **DAY_WEBCAM)
    before = NormalizationLayers(load_model(node.param("checkpoint")).model).source_affine()[0]
    for _ in range(12):
        camera.send(node)
    eventually(lambda: node._adaptation.onda.status().updates > 0, "an update")
    assert node._adaptation.onda.online.scale is not None
    assert ros.call(Trigger, f"{NODE}/reset", Trigger.Request()).success
    found = NormalizationLayers(node.loaded.model).source_affine()[0]
    torch.testing.assert_close(found, before)


def with_exposure(folder):
    """The tiny graph, whose cameras also report their exposure."""
    graph = load_model(tiny_adagraph(folder / "plain")).model.domain_graph()
    source = load_model(folder / "plain_source")
    nodes = [
        replace(n, metadata=n.metadata | {"exposure": 40.0 if "night" in n.name else 5.0})
        for n in graph.nodes
    ]
    # Noise looks like no domain of the graph, so what it looks like hardly counts.
    faint = (replace(f, weight=1e-12) if f.measured else f for f in graph.schema.fields)
    schema = Schema((*faint, Field("exposure", "number", measured=True)))
    schema = schema.fitted([node.metadata for node in nodes])
    whitening = tuple(map(tuple, np.eye(len(schema.measured)).tolist()))
    config = replace(graph.config, measured=RegressionConfig("kernel"), whitening=whitening)
    made = DomainGraph(schema, nodes, graph.mean, graph.variance, config)
    model = AdaGraphClassifier.around(source.model, made)
    return save_model(folder / "exposed", model, source.labels, source.metadata.preprocessing)


def test_a_camera_that_reports_its_exposure_is_followed(running, ros, tmp_path):
    checkpoint = str(with_exposure(tmp_path / "exposure"))
    node, camera, answers = running(checkpoint=checkpoint, change_threshold=5.0)
    publisher = ros.publisher(DomainMetadata, f"{NODE}/domain")
    ros.connected(publisher)

    def expose(value):
        publisher.publish(DomainMetadata(names=["exposure"], values=[value]))
        eventually(lambda: node._predictor._reported == {"exposure": float(value)})

    def nearest():
        return next(iter(node._adaptation.prediction.shares))

    expose("38")
    for _ in range(6):
        camera.send(node)
    eventually(lambda: len(answers) == 6)
    assert "night" in nearest()
    expose("6.5")
    assert "night" in nearest()  # a report alone changes nothing: the frames do
    for _ in range(3):
        camera.send(node)
    eventually(lambda: len(answers) == 9)
    assert "day" in nearest()
    publisher.publish(DomainMetadata(names=["exposure"], values=["long"]))
    eventually(lambda: ros.logged("exposure must be a finite number"))
