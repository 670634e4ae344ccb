# SPDX-License-Identifier: Apache-2.0
"""Switching tasks of real nodes over real DDS, with tiny networks and their deltas."""

import pytest
import torch

from newfound_core.classifier import Classifier
from newfound_core.models import load_model
from newfound_core.places import PlaceClassifier
from newfound_core.preprocessing import Preprocessing
from newfound_core.task_delta.checkpoint import load_base, save_delta
from newfound_core.task_delta.config import TaskDeltaConfig
from newfound_core.task_delta.layers import convert, masks_of
from newfound_core.testing import tiny
from newfound_msgs.msg import Classification, PlaceCategory
from newfound_msgs.srv import LoadTask
from newfound_nodes.adaptive_classifier import AdaptiveClassifier
from newfound_nodes.place_categorizer import PlaceCategorizer
from newfound_runtime.images import to_rgb
from newfound_runtime.testing import UNCONFIGURED, eventually, values

NODE = "/adaptive_classifier"
FRUIT = ("apple", "banana", "pear", "plum")


@pytest.fixture
def base(checkpoint):
    return checkpoint(name="base")


@pytest.fixture
def root(tmp_path):
    return tmp_path / "tasks"


@pytest.fixture
def task(base, root):
    """Writes a delta of the base below the root."""

    def make(name, labels=FRUIT, seed=0, over=None, model=Classifier):
        found = load_base(over or base)
        backbone = load_model(over or base).model.backbone
        config = TaskDeltaConfig()
        torch.manual_seed(seed)
        convert(backbone, config, 1e-3)
        with torch.no_grad():
            for _, mask in masks_of(backbone):
                mask.scores.normal_()
                mask.k[1:] = torch.randn(3) * 0.02
        save_delta(
            root / name,
            model(backbone, len(labels)),
            config,
            found,
            labels=labels,
            preprocessing=Preprocessing(size=32),
        )
        return root / name

    return make


@pytest.fixture
def running(ros, base, root, stream, tmp_path):
    """An active node, its camera and what it publishes."""

    def start(kind=AdaptiveClassifier, message=Classification, topic="classification", **given):
        root.mkdir(exist_ok=True)
        camera = stream()
        answers = ros.collect(message, f"/{kind.NAME}/{topic}")
        chosen = {"checkpoint": str(base), "base": str(base), "task_root": str(root),
                  "state_dir": str(tmp_path / "state"), "frames_per_update": 2}  # fmt: skip
        node = ros.started(kind, **chosen | given)
        return node, camera.connect(node), answers

    return start


@pytest.fixture
def load(ros):
    return lambda name, node=NODE: ros.call(
        LoadTask, f"{node}/load_task", LoadTask.Request(name=name)
    )


def expected(folder, base, message):
    """What a plain model says of an image message."""
    loaded = load_model(folder, base=base)
    with torch.no_grad():
        output = loaded.model(loaded.prepare([to_rgb(message)]))
    logits = output.logits if hasattr(output, "logits") else output
    return logits[0].double().softmax(-1).numpy()


def test_a_task_takes_over_between_two_images_and_back(running, task, load, base, picture, ros):
    folder = task("fruit")
    status = ros.diagnostics(NODE)
    node, camera, answers = running(adapt=False)
    camera.send(node)
    answer = load("fruit")
    assert (answer.result, answer.task, answer.was_held) == (
        LoadTask.Response.RESULT_OK,
        "fruit",
        False,
    )
    assert tuple(answer.labels) == FRUIT
    camera.send(node)
    first, second = eventually(lambda: len(answers) == 2 and answers)
    assert first.model.startswith("base@")
    assert second.model == answer.model == load_model(folder, base=base).name
    assert tuple(second.labels) == FRUIT
    assert second.probabilities == pytest.approx(expected(folder, base, picture(2)), abs=1e-6)
    told = eventually(lambda: (s := status()) and values(s).get("task") == "fruit" and values(s))
    assert told["tasks_held"] == "(checkpoint), fruit"
    back = load("")
    assert (back.result, back.task, back.was_held) == (back.RESULT_OK, "", True)
    camera.send(node)
    third = eventually(lambda: len(answers) == 3 and answers[-1])
    assert third.probabilities == pytest.approx(expected(base, "", picture(3)), abs=1e-6)


def test_no_image_is_lost_while_tasks_are_switched(running, task, load):
    names = [task(name, seed=seed).name for seed, name in enumerate(("a", "b", "c"))]
    node, camera, answers = running(adapt=False, held_tasks=2)
    for name in names * 2:
        camera.send(node)
        assert load(name).result == LoadTask.Response.RESULT_OK
        camera.send(node)
    eventually(lambda: len(answers) == camera.number, "every image answered")
    assert [a.header.stamp.sec for a in answers] == list(range(1, camera.number + 1))
    served = [a.model.partition("@")[0] for a in answers]
    assert served == ["base", *[name for name in names * 2 for _ in range(2)]][: len(served)]


def test_the_checkpoint_of_the_parameter_may_be_a_delta(running, task, picture, base):
    folder = task("fruit")
    node, camera, answers = running(checkpoint=str(folder), adapt=False)
    camera.send(node)
    answer = eventually(lambda: answers and answers[-1])
    assert answer.probabilities == pytest.approx(expected(folder, base, picture(1)), abs=1e-6)


def test_a_delta_without_its_base_is_not_configured(ros, task):
    node = ros.add(AdaptiveClassifier, checkpoint=str(task("fruit")))
    eventually(lambda: ros.logged("give it as `base`"))
    eventually(lambda: node.state() == UNCONFIGURED)


def test_the_least_recently_served_task_is_let_go(running, task, load):
    for name in ("a", "b"):
        task(name)
    node, _, _ = running(held_tasks=2)
    assert not load("a").was_held
    assert load("").was_held
    assert not load("b").was_held  # "a" served longest ago
    assert node.tasks.names == ["", "b"]
    assert not load("a").was_held


def test_what_is_no_task_below_the_root_is_refused(running, task, load):
    task("a")
    node, camera, answers = running(adapt=False)
    for name in ("none", "../base", "/etc", ".", "..", "a/b", ".hidden", "x" * 99):
        answer = load(name)
        assert answer.result == answer.RESULT_UNKNOWN_TASK
        assert "no task is called" in answer.message
        assert answer.model.startswith("base@")
    camera.send(node)
    assert eventually(lambda: answers and answers[-1]).model.startswith("base@")


def test_without_a_root_there_are_no_tasks(running, load):
    running(task_root="")
    answer = load("fruit")
    assert (answer.result, "task_root" in answer.message) == (answer.RESULT_NOT_READY, True)


def test_bad_tasks_are_refused_with_the_reason_and_the_old_one_serves_on(
    running, task, load, tmp_path
):
    good = task("good")
    task("other", over=tiny(tmp_path / "another", seed=9))
    task("place", model=PlaceClassifier)
    damaged, cut = task("damaged"), task("cut")
    content = bytearray((damaged / "model.safetensors").read_bytes())
    content[-9] ^= 1
    (damaged / "model.safetensors").write_bytes(content)
    (cut / "model.safetensors").write_bytes((good / "model.safetensors").read_bytes()[:-100])
    node, camera, answers = running(adapt=False)
    assert load("good").result == 0
    for name, reason in (
        ("other", "delta of another network"),
        ("place", "is of method 'bn'"),
        ("damaged", "model.safetensors"),
        ("cut", "model.safetensors"),
    ):
        answer = load(name)
        assert (answer.result, answer.task) == (answer.RESULT_BAD_TASK, "good")
        assert reason in answer.message, answer.message
        camera.send(node)
    eventually(lambda: len(answers) == 4)
    assert all(a.model.startswith("good@") for a in answers)


@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_adaptation_belongs_to_a_task_and_waits_for_it(running, task, load, backend):
    task("a")
    task("b", seed=1)
    options = {"estimator": "streaming", "balanced": False} if backend == "onnx" else {}
    node, camera, _ = running(backend=backend, confidence_drop=0.0, alarm=False, **options)
    assert load("a").result == 0
    adaptation = node._adaptation
    while not adaptation.report().updates:
        camera.send(node)
    eventually(node.settled)
    seen = adaptation.report()
    moved = adaptation.onda.drift().mean
    assert moved > 0
    assert load("b").result == 0
    assert node._adaptation.report().frames == 0
    assert node._adaptation.onda.drift().mean == 0
    camera.send(node)
    assert node._adaptation.report().frames == 1
    assert load("a").was_held
    assert (node._adaptation, adaptation.report()) == (adaptation, seen)
    assert adaptation.onda.drift().mean == moved


def test_a_task_let_go_leaves_its_state_and_goes_on_from_it(running, task, load, ros):
    task("a")
    task("b", seed=1)
    node, camera, _ = running(
        held_tasks=1, persist_adaptation=True, confidence_drop=0.0, alarm=False
    )
    assert load("a").result == 0
    while not node._adaptation.report().updates:
        camera.send(node)
    eventually(node.settled)
    moved = node._adaptation.onda.drift().mean
    assert load("b").result == 0
    assert node._adaptation.onda.drift().mean == 0
    assert load("a").result == 0
    assert node._adaptation.onda.drift().mean == pytest.approx(moved, rel=1e-5)
    assert not ros.logged("saved adaptation ignored")


def test_live_parameters_hold_for_a_task_that_was_held_meanwhile(running, task, load, ros):
    task("a")
    node, _, _ = running()
    assert load("a").result == 0
    assert ros.set(NODE, freeze=True, momentum=0.3).successful
    assert load("").was_held
    assert node._adaptation.onda.status().frozen
    assert node._adaptation.onda.config.momentum == pytest.approx(0.3)


def test_a_node_with_tasks_ends_cleanly_and_begins_with_its_checkpoint(running, task, load, ros):
    task("a")
    node, _, _ = running()
    assert load("a").result == 0
    for change in ("deactivate", "cleanup"):
        assert ros.change(NODE, change)
    refused = load("a")
    assert (refused.result, refused.message[:17]) == (
        refused.RESULT_NOT_READY,
        "nothing is loaded",
    )
    for change in ("configure", "activate"):
        assert ros.change(NODE, change)
    assert (node.tasks.serving, node.loaded.name.partition("@")[0]) == ("", "base")


def test_places_are_switched_with_their_filter(running, task, load, checkpoint, tmp_path):
    rooms = checkpoint("bn", name="rooms")
    task("flat", labels=("kitchen", "bath"), over=rooms, model=PlaceClassifier)
    node, camera, answers = running(
        PlaceCategorizer,
        PlaceCategory,
        "place",
        checkpoint=str(rooms),
        base=str(rooms),
        filter=True,
    )
    camera.send(node)
    assert load("flat", "/place_categorizer").result == 0
    camera.send(node)
    found = eventually(lambda: len(answers) == 2 and answers)
    assert [len(a.labels) for a in found] == [3, 2]
    assert tuple(found[1].labels) == ("kitchen", "bath")
