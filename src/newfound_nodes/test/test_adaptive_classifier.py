# SPDX-License-Identifier: Apache-2.0
"""The node over real DDS, with tiny random networks."""

import math
import signal
import threading

import numpy as np
import pytest
import torch
from diagnostic_msgs.msg import DiagnosticStatus
from sensor_msgs.msg import Image
from std_srvs.srv import SetBool, Trigger

from newfound_core.models import load_model, save_model
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.estimators import BatchEstimator
from newfound_core.onda.watch import Answer, Watch
from newfound_core.testing import tiny
from newfound_msgs.msg import AdaptationStatus, Classification
from newfound_nodes.adaptive_classifier import AdaptiveClassifier
from newfound_runtime import perception_node
from newfound_runtime.images import to_rgb
from newfound_runtime.testing import UNCONFIGURED, eventually, image, values

NODE = "/adaptive_classifier"
QUICK = {"frames_per_update": 2, "momentum": 0.5}


@pytest.fixture
def running(ros, checkpoint, stream, tmp_path):
    """An active node, its camera and what it publishes."""

    def start(rejects=None, confidence=None, **parameters):
        camera = stream()
        answers = ros.collect(Classification, f"{NODE}/classification")
        folder = checkpoint(rejects=rejects)
        if confidence is not None:
            loaded = load_model(folder)
            loaded.model.source_confidence = confidence
            prepared = loaded.metadata.preprocessing
            save_model(folder, loaded.model, loaded.labels, prepared, replace=True)
        chosen = {"checkpoint": str(folder), "state_dir": str(tmp_path / "state")}
        node = ros.started(AdaptiveClassifier, **chosen | QUICK | parameters)
        return node, camera.connect(node), answers

    return start


@pytest.fixture
def ask(ros):
    """Call a Trigger service of the node."""
    return lambda name: ros.call(Trigger, f"{NODE}/{name}", Trigger.Request())


def updated(node, count):
    """Wait for so many updates."""
    eventually(lambda: node._adaptation.report().updates == count, f"{count} updates")


# Frames --------------------------------------------------------------------------------------


def test_an_image_gets_what_the_model_says_of_it(running, picture):
    node, camera, answers = running(adapt=False)
    camera.send(node)
    answer = eventually(lambda: answers and answers[-1])
    loaded, sent = load_model(node.param("checkpoint")), picture(1)
    with torch.no_grad():
        expected = loaded.model(loaded.prepare([to_rgb(sent)]))[0].double().softmax(-1).numpy()
    assert answer.header == sent.header
    np.testing.assert_allclose(answer.probabilities, expected, atol=1e-6)
    assert answer.label == loaded.labels[int(expected.argmax())]
    assert answer.confidence == max(answer.probabilities)
    assert answer.entropy == pytest.approx(-(expected * np.log(expected)).sum(), abs=1e-5)
    assert (answer.model, answer.adaptation_updates) == (loaded.name, 0)


def test_onnx_adapts_as_torch_does(running):
    node, camera, _ = running(
        backend="onnx", estimator="streaming", balanced=False, positions_per_frame=4096, threads=1
    )
    before = load_model(node.param("checkpoint")).model.state_dict()
    for number in range(1, 4):
        camera.send(node)
        updated(node, number // 2)  # at first all frames count, and two make an update
    means = {k: v for k, v in node.loaded.model.state_dict().items() if "running_mean" in k}
    assert any(not torch.equal(value, before[name]) for name, value in means.items())
    with torch.no_grad():
        batch = node.inference.prepare([to_rgb(image(64, 48))])
        found, expected = node.inference.run(batch), node.loaded.model(batch)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_an_image_of_no_known_class_has_an_empty_label_unless_that_is_off(ros, running):
    node, camera, answers = running(rejects=0.8)
    camera.send(node)
    answer = eventually(lambda: answers and answers[-1])
    assert (answer.label, answer.nearest_label in answer.labels) == ("", True)
    assert answer.confidence == answer.unknown_probability == pytest.approx(0.8, abs=1e-3)
    assert ros.set(NODE, reject_unknown=False).successful
    camera.send(node)
    answer = eventually(lambda: len(answers) > 1 and answers[-1])
    assert answer.label == answer.nearest_label
    assert answer.confidence == pytest.approx(0.2 * max(answer.probabilities), abs=1e-3)


def test_the_node_starts_with_the_model_that_is_shipped_and_answers(ros, stream):
    camera, answers = stream(), ros.collect(Classification, f"{NODE}/classification")
    node = ros.started(AdaptiveClassifier)
    camera.connect(node).send(node)
    answer = eventually(lambda: answers and answers[-1])
    assert answer.model.startswith("sim_workbench@")
    assert answer.nearest_label in answer.labels
    assert answer.label == ""  # noise is no tool


@pytest.mark.parametrize("estimator", ["batch", "streaming"])
def test_predictions_follow_the_stream_as_onda_itself_would(running, picture, estimator):
    balanced = estimator == "batch"
    node, camera, answers = running(estimator=estimator, balanced=balanced)
    loaded = load_model(node.param("checkpoint"))
    alone = Onda(loaded.model, OndaConfig(estimator=estimator, balanced=balanced, **QUICK))
    expected = [alone.probabilities(loaded.prepare([to_rgb(picture(n))])) for n in range(1, 6)]
    for pair in range(2):
        camera.send(node, 2)
        updated(node, pair + 1)
    camera.send(node)
    eventually(lambda: len(answers) == 5)
    assert [a.adaptation_updates for a in answers] == [0, 0, 1, 1, 2]
    found = [answer.probabilities for answer in answers]
    np.testing.assert_allclose(found, torch.stack(expected), atol=1e-4)


def test_the_second_pass_of_batch_never_delays_a_frame(running, monkeypatch):
    go_on, begun = threading.Event(), threading.Event()
    estimate = BatchEstimator.estimate

    def held(self, samples, current):
        begun.set()
        assert go_on.wait(60)
        return estimate(self, samples, current)

    monkeypatch.setattr(BatchEstimator, "estimate", held)
    node, camera, answers = running(estimator="batch")
    camera.send(node, 2)
    eventually(begun.is_set, "second pass under way")
    camera.send(node, 20)  # each waits for the answer to the last
    eventually(lambda: len(answers) == 22)
    assert node._adaptation.report().updates == 0, "all of them while the pass is held"
    go_on.set()
    updated(node, 1)
    camera.send(node)
    updated(node, 2)  # by the newest of the frames that came meanwhile
    assert answers[21].adaptation_updates == 0


def test_updates_that_keep_failing_are_told_and_do_not_flood_the_log(ros, running, monkeypatch):
    def fail(*_):
        raise RuntimeError("out of memory")

    told = ros.collect(AdaptationStatus, f"{NODE}/adaptation")
    status = ros.diagnostics(NODE)
    monkeypatch.setattr(perception_node, "WARN_EVERY", 3600.0)
    monkeypatch.setattr(BatchEstimator, "estimate", fail)
    node, camera, _ = running()
    eventually(lambda: told and status())
    for count in range(1, 4):
        camera.send(node, 2)
        eventually(lambda c=count: node._adaptation.report().updates_failed == c)
    unwell = eventually(lambda: "adaptation fails (3 updates)" in status().message and status())
    assert unwell.level == DiagnosticStatus.WARN
    assert values(unwell)["updates_failed"] == "3"
    eventually(lambda: "the last update failed, 3 in all" in told[-1].message)
    [line] = ros.warnings(NODE)
    assert "out of memory" in line


def test_adaptation_goes_on_while_nobody_listens_and_freezing_ends_that(ros, checkpoint, stream):
    camera = stream()
    node = ros.started(AdaptiveClassifier, checkpoint=str(checkpoint()), **QUICK)
    camera.connect(node)
    camera.send(node, 2)
    updated(node, 1)
    assert ros.call(SetBool, f"{NODE}/freeze", SetBool.Request(data=True)).success
    eventually(lambda: not node._input.subscribed, "no longer subscribed")


# Status, services and live parameters ---------------------------------------------------------


def test_the_status_tells_updates_drift_entropy_and_the_last_reset(ros, running, ask):
    node, camera, answers = running(skip_redundant=True)
    told = ros.collect(AdaptationStatus, f"{NODE}/adaptation")
    first = eventually(lambda: told and told[-1])
    assert (first.state, first.updates, first.drift_mean) == (first.STATE_ADAPTING, 0, 0.0)
    assert math.isnan(first.entropy)
    assert (first.last_reset_reason, first.last_update.sec) == (first.RESET_NONE, 0)
    camera.send(node)
    camera.number -= 1  # the same picture again
    camera.send(node, 2)
    updated(node, 1)
    now = eventually(lambda: told[-1].updates == 1 and told[-1])
    assert (now.frames, now.frames_skipped, now.frames_per_update) == (3, 1, 2)
    assert (now.estimator, now.momentum) == ("batch", 0.5)
    assert len(now.layers) == len(now.drift) > 10
    assert now.drift_mean == pytest.approx(np.mean(now.drift), rel=1e-5)
    assert now.drift_max == max(now.drift) > 0
    entropies = [answers[0].entropy, answers[2].entropy]
    assert now.entropy == pytest.approx(np.mean(entropies), abs=1e-5)
    assert now.header.stamp.sec == 2
    assert now.last_update.sec > 0
    assert ask("reset").success
    back = eventually(lambda: told[-1].last_reset_reason == now.RESET_REQUESTED and told[-1])
    assert (back.drift_max, back.updates) == (0.0, 1)
    assert back.last_reset.sec > 0


def test_freezing_holds_the_statistics_and_the_parameter_says_so(ros, running):
    node, camera, _ = running()
    told = ros.collect(AdaptationStatus, f"{NODE}/adaptation")
    assert ros.call(SetBool, f"{NODE}/freeze", SetBool.Request(data=True)).message == "frozen"
    assert node.param("freeze") is True
    camera.send(node, 5)
    eventually(lambda: told and told[-1].state == AdaptationStatus.STATE_FROZEN)
    assert node._adaptation.report().updates == 0
    assert ros.set(NODE, freeze=False).successful
    camera.send(node, 2)
    updated(node, 1)
    eventually(lambda: told[-1].state == AdaptationStatus.STATE_ADAPTING)


def test_a_saved_state_can_be_restored_after_a_reset(ros, running, ask):
    node, camera, _ = running()
    camera.send(node, 2)
    updated(node, 1)
    drift = node._adaptation.onda.drift().per_layer
    assert not ask("restore").success, "nothing was saved yet"
    assert ask("save").success
    ask("reset")
    assert node._adaptation.onda.drift().maximum == 0
    told = ros.collect(AdaptationStatus, f"{NODE}/adaptation")
    eventually(lambda: node.wanted("adaptation"))
    assert ask("restore").success
    assert node._adaptation.onda.drift().per_layer == drift
    eventually(lambda: told and told[-1].last_reset_reason == AdaptationStatus.RESET_RESTORED)


def test_both_messages_count_the_same_updates_after_a_restore(ros, running, ask):
    node, camera, answers = running()
    told = ros.collect(AdaptationStatus, f"{NODE}/adaptation")
    camera.send(node, 2)
    updated(node, 1)
    assert ask("save").success
    camera.send(node, 2)
    updated(node, 2)
    assert ask("restore").success
    camera.send(node)
    eventually(lambda: len(answers) == 5)
    restored = AdaptationStatus.RESET_RESTORED
    status = eventually(lambda: told and told[-1].last_reset_reason == restored and told[-1])
    assert answers[-1].adaptation_updates == status.updates == 2


def test_momentum_and_frames_per_update_take_effect_while_the_stream_runs(ros, running):
    node, camera, _ = running()
    assert ros.set(NODE, momentum=0.25, frames_per_update=3).successful
    camera.send(node, 2)
    assert not node._adaptation._estimating
    camera.send(node)
    updated(node, 1)
    assert node._adaptation.onda.config.momentum == 0.25


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"momentum": 0.0}, "momentum"),
        ({"frames_per_update": 1}, "frames_per_update"),
        ({"estimator": "streaming"}, "cannot change"),
        ({"balanced": False}, "cannot change"),
        ({"layers": "last:4"}, "cannot change"),
        ({"alarm_hold": 0}, "alarm_hold"),
        ({"state_dir": "/elsewhere"}, "cannot change"),
    ],
)
def test_changes_that_cannot_be_are_refused_with_the_reason(ros, running, change, reason):
    running()
    result = ros.set(NODE, **change)
    assert not result.successful
    assert reason in result.reason


def test_without_adaptation_the_status_and_the_services_say_so(ros, running, ask):
    running(adapt=False)
    told = ros.collect(AdaptationStatus, f"{NODE}/adaptation")
    status = eventually(lambda: told and told[-1])
    assert (status.state, status.estimator) == (status.STATE_DISABLED, "")
    assert "off" in status.message
    answer = ask("reset")
    assert not answer.success
    assert "nothing adapts" in answer.message


def test_an_alarm_returns_to_the_source_and_status_and_diagnostics_say_why(
    ros, running, monkeypatch
):
    contradicted = [Answer(label=0, confidence=1.0, adapted=1)] * 30
    monkeypatch.setattr(Watch, "compare", lambda *_: contradicted)
    node, camera, _ = running()
    told = ros.collect(AdaptationStatus, f"{NODE}/adaptation")
    camera.send(node, 2)
    status = eventually(lambda: told and told[-1].alarms == 1 and told[-1])
    assert (status.state, status.last_reset_reason) == (status.STATE_RESTING, status.RESET_ALARM)
    assert (status.agreement, status.drift_max) == (0.0, 0.0)
    assert "agrees with the source on 0 % of 30 images" in status.message
    level, text, _ = node.health()
    assert level == DiagnosticStatus.WARN
    assert "adaptation was lost and rests: agrees with the source on 0 %" in text
    assert node.diagnose()["adaptation"] == "resting"


def test_a_source_that_is_confident_rests_and_the_status_says_so(ros, running):
    node, camera, _ = running(confidence=0.01)
    told = ros.collect(AdaptationStatus, f"{NODE}/adaptation")
    camera.send(node, 2)
    updated(node, 1)
    status = eventually(lambda: told and told[-1].updates == 1 and told[-1])
    assert status.state == status.STATE_RESTING
    assert status.confidence_drop < 0
    assert "as confident as on its own images" in status.message


def test_the_debug_image_shows_the_drift(ros, running):
    node, camera, _ = running()
    pictures = ros.collect(Image, f"{NODE}/debug_image")
    eventually(lambda: node.wanted("debug_image"))
    camera.send(node, 2)
    updated(node, 1)
    camera.send(node)
    eventually(lambda: len(pictures) == 3)
    before, after = (to_rgb(p)[-48:].sum() for p in (pictures[0], pictures[2]))
    assert after != before


def test_diagnostics_tell_the_state_of_adaptation(ros, running):
    status = ros.diagnostics(NODE)
    running(freeze=True)
    eventually(lambda: status() and values(status()).get("adaptation"))
    told = values(status())
    assert (told["adaptation"], told["updates"], told["drift_max"]) == ("frozen", "0", "0.0")


# What cannot be configured --------------------------------------------------------------------


def test_what_cannot_work_keeps_the_node_unconfigured_with_one_line(ros, checkpoint, tmp_path):
    (tmp_path / "file").write_text("")
    source = str(checkpoint())
    wrong_labels = checkpoint(name="wrong_labels")
    text = (wrong_labels / "checkpoint.json").read_text()
    (wrong_labels / "checkpoint.json").write_text(text.replace('"banana"', '"banana", "saw"'))
    state = {"persist_adaptation": True, "state_dir": str(tmp_path / "file/state")}
    cases = [
        ({"checkpoint": str(tmp_path / "none")}, "none does not exist"),
        ({"checkpoint": "nonesuch"}, "nonesuch is no folder here, nor a shipped model"),
        ({"checkpoint": ""}, "no checkpoint is given"),
        (
            {"checkpoint": str(checkpoint("wbn"))},
            "but adagraph or mda or source is needed",
        ),
        ({"checkpoint": str(wrong_labels)}, "lists 4 labels, but"),
        ({"checkpoint": source, **state}, "cannot be written: Not a directory"),
        ({"checkpoint": source, "backend": "compile"}, "compile cannot adapt"),
        (
            {"checkpoint": source, "backend": "onnx", "execution_provider": "tensorrt"},
            "tensorrt does not run on cpu: set device to cuda",
        ),
        ({"checkpoint": source, "half_precision": True}, "needs a CUDA device"),
        ({"checkpoint": source, "estimator": "streaming"}, "balanced needs the estimator batch"),
        ({"checkpoint": source, "layers": "last:999"}, "normalisation layers: choose at most"),
        ({"checkpoint": source, "device": "cuda:77"}, "the device 'cuda:77' cannot be used here"),
    ]
    for number, (parameters, said) in enumerate(cases):
        name = f"case_{number}"
        node = ros.add(AdaptiveClassifier, name, **parameters)
        eventually(lambda name=name: ros.warnings(name))
        eventually(lambda node=node: node.state() == UNCONFIGURED)
        [line] = ros.warnings(name)
        assert said in line
        assert "\n" not in line


def test_a_node_without_its_checkpoint_leaves_the_others_of_its_container_alone(
    ros, checkpoint, tmp_path
):
    file = tmp_path / "robot.yaml"
    file.write_text(f"""
/container: {{ros__parameters: {{nodes: [adaptive_classifier, place_categorizer]}}}}
/adaptive_classifier: {{ros__parameters: {{checkpoint: {tmp_path / "none"}}}}}
/place_categorizer: {{ros__parameters: {{checkpoint: {checkpoint("wbn")}}}}}
""")
    container = ros.process(
        "-m", "newfound_runtime.container", "--ros-args", "--params-file", str(file)
    )
    ros.becomes_active("/place_categorizer")
    eventually(lambda: ros.state(NODE) == UNCONFIGURED)
    container.send_signal(signal.SIGINT)
    text, _ = container.communicate(timeout=60)
    assert container.returncode == 0
    assert text.count("ERROR") == 1
    assert "Traceback" not in text


# Latent domains ------------------------------------------------------------------------------


def test_a_model_with_latent_domains_serves_adapts_and_tells_them(ros, stream, tmp_path, picture):
    camera = stream()
    answers = ros.collect(Classification, f"{NODE}/classification")
    reports = ros.collect(AdaptationStatus, f"{NODE}/adaptation")
    chosen = {"checkpoint": str(tiny(tmp_path / "m", "mda")), "state_dir": str(tmp_path / "state")}
    node = ros.started(AdaptiveClassifier, **chosen | QUICK)
    camera = camera.connect(node)
    camera.send(node)
    answer = eventually(lambda: answers and answers[-1])
    loaded = load_model(chosen["checkpoint"])
    with torch.no_grad():
        output = loaded.model(loaded.prepare([to_rgb(picture(1))]))
    expected = output.logits[0].double().softmax(-1).numpy()
    np.testing.assert_allclose(answer.probabilities, expected, atol=1e-6)
    node.publish_status()
    report = eventually(lambda: next((r for r in reports if r.frames), None))
    assert list(report.node_names) == ["townhouse", "loft"]
    np.testing.assert_allclose(report.node_weights, output.domain_weights[0], atol=1e-6)
    assert math.isnan(report.domain_distance)
    assert len(report.layers) == len(loaded.model.domain_layers())
    camera.send(node)
    updated(node, 1)


def test_a_plain_model_is_composed_of_no_domains(running, ros):
    reports = ros.collect(AdaptationStatus, f"{NODE}/adaptation")
    node, camera, answers = running()
    camera.send(node)
    eventually(lambda: answers)
    node.publish_status()
    report = eventually(lambda: reports and reports[-1])
    assert (list(report.node_names), list(report.node_weights)) == ([], [])
