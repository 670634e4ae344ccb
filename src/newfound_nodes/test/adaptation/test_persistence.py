# SPDX-License-Identifier: Apache-2.0
"""Adapted state over restarts, real kills and other checkpoints, by the real node."""

import itertools
import json
import signal

import pytest
from safetensors.torch import load_file
from sensor_msgs.msg import Image

from newfound_msgs.msg import Classification
from newfound_nodes.adaptive_classifier import AdaptiveClassifier
from newfound_runtime.testing import eventually

NODE = "/adaptive_classifier"

RUN = "from newfound_runtime.executable import main; main('adaptive_classifier')"


@pytest.fixture
def parameters(tmp_path):
    return {
        "persist_adaptation": True,
        "state_dir": str(tmp_path / "state"),
        "frames_per_update": 2,
        "momentum": 0.5,
    }


@pytest.fixture
def run(ros, stream, parameters):
    """Start a node on a checkpoint, with a camera."""

    def start(folder, **more):
        node = ros.started(AdaptiveClassifier, checkpoint=str(folder), **parameters | more)
        return node, stream().connect(node)

    return start


def adapt(node, camera):
    """Two frames, one update."""
    before = node._adaptation.report().updates
    camera.send(node, 2)
    eventually(lambda: node._adaptation.report().updates == before + 1)


def states(tmp_path):
    return sorted((tmp_path / "state").glob("*/*.latest.safetensors"))


@pytest.mark.parametrize("ending", ["deactivate", "shutdown"])
def test_the_state_survives_the_end_of_the_node(ros, run, checkpoint, tmp_path, ending):
    folder = checkpoint()
    node, camera = run(folder)
    adapt(node, camera)
    drift = node._adaptation.onda.drift().per_layer
    assert ros.change(NODE, ending)
    eventually(lambda: states(tmp_path))
    if ending == "deactivate":
        assert ros.change(NODE, "cleanup")
        assert ros.change(NODE, "configure")
        again = node
    else:
        ros.nodes.remove(node)
        node.destroy_node()
        again, _ = run(folder)
    assert again._adaptation.onda.drift().per_layer == drift
    assert again._adaptation.report().reset_reason == "restored"


def test_a_state_of_another_checkpoint_is_ignored_with_one_warning_and_kept(
    ros, run, checkpoint, tmp_path
):
    node, camera = run(checkpoint(seed=1))
    adapt(node, camera)
    ros.change(NODE, "deactivate")
    first = eventually(lambda: states(tmp_path))
    content = first[0].read_bytes()
    ros.change(NODE, "cleanup")
    ros.set(NODE, checkpoint=str(checkpoint(name="retrained", seed=2)))
    assert ros.change(NODE, "configure")
    [told] = eventually(lambda: ros.warnings(NODE))
    assert "saved adaptation ignored" in told
    assert "states of other checkpoints" in told
    assert node._adaptation.onda.drift().maximum == 0
    assert first[0].read_bytes() == content


@pytest.mark.parametrize("damage", ["foreign", "cut"])
def test_a_file_that_does_not_fit_is_ignored_with_one_warning(
    ros, run, checkpoint, tmp_path, damage
):
    node, camera = run(checkpoint())
    adapt(node, camera)
    ros.change(NODE, "deactivate")
    [file] = eventually(lambda: states(tmp_path))
    ros.change(NODE, "cleanup")
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-7])
    else:  # renamed by hand to where the state of another checkpoint would be
        ros.set(NODE, checkpoint=str(checkpoint(name="other", seed=5)))
        from newfound_core.models import load_model

        key = load_model(tmp_path / "other").digest[:16]
        file.rename(file.with_name(f"{key}.latest.safetensors"))
    assert ros.change(NODE, "configure")
    [told] = eventually(lambda: ros.warnings(NODE))
    assert "saved adaptation ignored" in told
    assert node._adaptation.onda.drift().maximum == 0


def test_a_killed_process_leaves_a_whole_state_that_the_next_one_goes_on_from(
    ros, checkpoint, picture, parameters, tmp_path
):
    folder = checkpoint()
    chosen = parameters | {"persist_period": 0.1, "checkpoint": str(folder)}
    options = [part for k, v in chosen.items() for part in ("-p", f"{k}:={json.dumps(v)}")]
    process = ros.process("-c", RUN, "--ros-args", *options)
    ros.becomes_active(NODE)
    camera = ros.publisher(Image, "/image")
    numbers, seen = itertools.count(), set()

    def watch():
        camera.publish(picture(next(numbers)))
        seen.update(file.stat().st_mtime_ns for file in states(tmp_path))
        return len(seen) > 2

    eventually(watch, "the state was written several times")
    process.send_signal(signal.SIGKILL)
    process.wait()
    [file] = states(tmp_path)
    assert set(load_file(file)) == {"mean", "variance"}
    node = ros.started(AdaptiveClassifier, **parameters, checkpoint=str(folder))
    assert node._adaptation.onda.drift().maximum > 0
    left_over = {p.name for p in file.parent.iterdir()} - {file.name}
    assert left_over == set()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_is_told_to_end_saves_its_state_first(
    ros, checkpoint, picture, parameters, tmp_path, ending
):
    chosen = parameters | {"persist_period": 86400.0, "checkpoint": str(checkpoint())}
    options = [part for k, v in chosen.items() for part in ("-p", f"{k}:={json.dumps(v)}")]
    process = ros.process("-c", RUN, "--ros-args", *options)
    answers = ros.collect(Classification, f"{NODE}/classification")
    ros.becomes_active(NODE)
    camera, numbers = ros.publisher(Image, "/image"), itertools.count()

    def adapted():
        camera.publish(picture(next(numbers)))
        return answers and answers[-1].adaptation_updates > 0

    eventually(adapted, "an update")
    assert states(tmp_path) == []
    process.send_signal(ending)
    text, _ = process.communicate(timeout=240)
    assert process.returncode == 0, text
    assert "Traceback" not in text
    node = ros.started(AdaptiveClassifier, **parameters, checkpoint=chosen["checkpoint"])
    assert node._adaptation.report().reset_reason == "restored"
    assert node._adaptation.onda.drift().maximum > 0


def test_without_being_asked_nothing_is_written(run, ros, checkpoint, tmp_path):
    node, camera = run(checkpoint(), persist_adaptation=False)
    adapt(node, camera)
    ros.change(NODE, "deactivate")
    ros.change(NODE, "cleanup")
    assert not (tmp_path / "state").exists()
