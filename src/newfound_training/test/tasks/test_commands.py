# SPDX-License-Identifier: Apache-2.0
"""Tasks trained, made, applied and compared by the commands, on tiny networks."""

import json

import numpy as np
import pytest
import torch

from newfound_core.checkpoint import load_checkpoint
from newfound_core.errors import ConfigError
from newfound_core.models import load_model
from newfound_core.task_delta.checkpoint import load_base
from newfound_core.testing import tiny
from newfound_training.commands import main
from newfound_training.data import load_pixels, open_images
from newfound_training.tasks.evaluate import parse_task
from newfound_training.tasks.options import EvaluationOptions
from newfound_training.tasks.tables import score, summary
from newfound_training.tasks.task import fit_head

SHORT = ["--image-size", "32", "--batch-size", "8", "--iterations", "25", "--lr", "1e-2"]


@pytest.fixture
def base(tmp_path):
    return tiny(tmp_path / "base")


def result_of(out):
    return json.loads((out / "result.json").read_text())


def train(base, tree, out, *more):
    arguments = ["--base", base, "--data", tree, "--domains", "bright", "--out", out]
    return main(["train-task", *map(str, arguments), *SHORT, *more])


def test_images_become_a_delta_that_its_base_serves(base, tree, tmp_path, undocumented):
    out = tmp_path / "out"
    before = load_checkpoint(base).digest
    assert train(base, tree, out, "--test-domains", "bright", "--lr", "1e-3") == 0
    result = result_of(out)
    assert not undocumented("train-task", result)
    assert result["accuracy"] > 0.6  # of its training images; chance is a third
    assert 0 < result["bits_set"] < 1
    loaded = load_model(out / "checkpoint", "source", base=base)
    assert loaded.labels == ("blue", "green", "red")
    assert load_checkpoint(base).digest == before
    assert "needs the network" in (out / "checkpoint" / "README.md").read_text()


@pytest.mark.parametrize("statistics", ["base", "task"])
def test_statistics_are_the_bases_or_estimated_on_the_tasks_images(
    statistics, base, tree, tmp_path
):
    out = tmp_path / "out"
    assert train(base, tree, out, "--norm-statistics", statistics, "--held-out-share", "0") == 0
    trunk = load_base(base).tensors
    applied = load_model(out / "checkpoint", base=base)
    names = [name for name in trunk if name.endswith("running_mean")]
    state = applied.model.backbone.state_dict()
    assert all(torch.equal(state[n], trunk[n]) == (statistics == "base") for n in names)
    # The first layer's input is not normalised: its mean is that of the images themselves.
    if statistics == "task":
        images = open_images(tree, "tree")
        chosen = images.select(np.flatnonzero(images.domains == images.domain_index("bright")))
        pixels = load_pixels(chosen, 32)
        found = applied.model.backbone.stem.conv(
            applied.prepare([pixels[i] for i in range(len(pixels))])
        )
        mean = found.detach().double().mean((0, 2, 3))
        first = next(n for n in names if n.startswith("stem"))
        torch.testing.assert_close(state[first].double(), mean, atol=1e-3, rtol=1e-2)


def test_the_head_starts_as_a_logistic_regression():
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 20)
    features = generator.normal(size=(60, 5)) + 2 * np.eye(3, 5)[labels]
    head = torch.nn.Linear(5, 3)
    fit_head(head, torch.tensor(features, dtype=torch.float32), torch.tensor(labels))
    weight = head.weight.detach().double().numpy()
    logits = features @ weight.T + head.bias.detach().double().numpy()
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    error = shares - np.eye(3)[labels]
    # At the minimum the gradient of mean cross entropy + 1e-3 |W|^2 vanishes.
    assert np.abs(error.T @ features / 60 + 2e-3 * weight).max() < 1e-3
    assert np.abs(error.mean(0)).max() < 1e-3
    assert (logits.argmax(1) == labels).mean() > 0.8


def test_a_place_task_is_for_the_place_node(base, tree, tmp_path):
    assert train(base, tree, tmp_path / "out", "--head", "places", "--variant", "simple") == 0
    assert load_model(tmp_path / "out" / "checkpoint", "bn", base=base).labels


def test_some_classes_and_other_domains_to_measure_on(base, tree, tmp_path):
    more = ["--classes", "red", "blue", "--test-domains", "dark", "--images-per-class", "5"]
    assert train(base, tree, tmp_path / "out", *more) == 0
    result = result_of(tmp_path / "out")
    assert result["classes"] == ["red", "blue"]
    assert (result["training_images"], result["held_out_images"]) == (10, 16)


def test_an_applied_delta_is_a_plain_checkpoint(base, tree, tmp_path, undocumented):
    assert train(base, tree, tmp_path / "task") == 0
    delta, out = tmp_path / "task" / "checkpoint", tmp_path / "plain"
    arguments = ["--checkpoint", delta, "--base", base, "--out", out]
    assert main(["apply-delta", *map(str, arguments)]) == 0
    assert not undocumented("apply-delta", result_of(out))
    plain, applied = load_model(out / "checkpoint", "source"), load_model(delta, base=base)
    images = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(plain.model(images), applied.model(images))


def test_a_fine_tuned_model_becomes_a_delta(base, tree, tmp_path, undocumented, capsys):
    tuned = tiny(tmp_path / "tuned", seed=2, labels=("blue", "green", "red"))
    arguments = ["--checkpoint", tuned, "--base", base, "--data", tree, "--domains", "bright"]
    arguments = [*map(str, arguments), *SHORT]
    assert main(["make-delta", *arguments, "--out", str(tmp_path / "out")]) == 0
    result = result_of(tmp_path / "out")
    assert not undocumented("make-delta", result)
    assert 0.3 < result["bits_set"] < 0.7
    assert load_model(tmp_path / "out" / "checkpoint", base=base).labels
    other = ["--classes", "red", "blue", "--out", str(tmp_path / "other")]
    assert main(["make-delta", *arguments, *other]) == 1
    assert "give the images it was trained on" in capsys.readouterr().err
    larger = ["--image-size", "64", "--out", str(tmp_path / "larger")]
    assert main(["make-delta", *arguments, *larger]) == 2
    assert "takes images of 32 pixels, not 64" in capsys.readouterr().err


def test_killed_at_once_and_resumed_it_ends_with_the_same_task(
    base, tree, same_weights_after_a_kill
):
    arguments = ["train-task", "--base", base, "--data", tree, "--domains", "bright", *SHORT]
    same_weights_after_a_kill(*arguments, "--save-every", 3, "--out")


def test_every_row_is_compared_with_fine_tuning(base, tree, tmp_path, undocumented):
    out = tmp_path / "out"
    arguments = ["--data", tree.parent, "--base", base, "--out", out, "--quick"]
    tasks = [f"{tree.name}/bright,dark", f"{tree.name}/dark[0:2]"]
    arguments = [*map(str, arguments), "--image-size", "32", "--tasks", *tasks]
    arguments += ["--head-rates", "0.01", "0.1", "--iterations", "4", "--rows"]
    arguments += ["head", "norm", "piggyback", "full", "make_delta", "fine_tuning"]
    assert main(["evaluate-tasks", *arguments]) == 0
    result = result_of(out)
    names = {*result["rows"], *tasks}
    assert not undocumented("evaluate-tasks", result, names)
    assert result["rows"]["fine_tuning"]["score"] == pytest.approx(500)
    assert result["rows"]["fine_tuning"]["parameters"] == pytest.approx(3)
    assert result["rows"]["head"]["kib"] == 0
    assert result["rows"]["norm"]["kib"] < result["rows"]["full"]["kib"]
    assert "BAT full" in (out / "table.md").read_text()
    assert main(["evaluate-tasks", *arguments, "--resume"]) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [("photo", "names no task"), ("tree/bright[0:1]", "has 1 of the 3 classes")],
)
def test_a_task_that_cannot_be_is_named(text, message, tree):
    options = EvaluationOptions(data=str(tree.parent), tasks=(text,), out="x")
    text = text.replace("tree/", f"{tree.name}/")
    with pytest.raises(ConfigError, match=message):
        parse_task(text, options)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"test_images_per_class": -1}, "test_images_per_class must not be negative"),
        ({"piggyback_margin": -1.0}, "piggyback_margin must not be negative"),
        ({"make_delta_iterations": 0}, "make_delta_iterations must be at least 1"),
        ({"tasks": ("a/b", "a/b")}, "a task can be named once"),
        ({"rates": (1e-3, -1e-3)}, "lr must not be negative"),
    ],
)
def test_an_evaluation_that_cannot_be_is_refused_before_anything_is_trained(values, message):
    with pytest.raises(ConfigError, match=message):
        EvaluationOptions(**{"data": "x", "tasks": ("a/b",), "out": "y"} | values)


@pytest.mark.parametrize(
    ("classes", "message"),
    [(["red"], "at least two"), (["red", "red"], "a class can be named once")],
)
def test_classes_that_make_no_task_are_refused(base, tree, tmp_path, capsys, classes, message):
    assert train(base, tree, tmp_path / "out", "--classes", *classes) != 0
    assert message in capsys.readouterr().err


def test_the_score_is_that_of_the_decathlon():
    # Three tasks by hand: as good, perfect, and worse than twice fine-tuning's error.
    assert score([0.2, 0.0, 0.9], [0.2, 0.1, 0.3]) == pytest.approx(250 + 1000 + 0)
    assert score([0.0, 0.1], [0.0, 0.0]) == 250


def test_the_thesiss_row_is_recomputed_from_its_accuracies():
    """ResNet-50, BAT full: 1458; classifier only: 280 (printed as 533)."""
    tuned = 1 - np.array([82.8, 91.8, 96.6, 75.6, 80.8]) / 100
    full = 1 - np.array([82.4, 91.4, 96.7, 75.3, 80.2]) / 100
    only = 1 - np.array([70.7, 52.8, 86.0, 55.6, 50.9]) / 100
    assert score(full, tuned) == pytest.approx(1458 - 250, abs=6)  # its sum has ImageNet's 250
    assert score(only, tuned) == pytest.approx(280 - 250, abs=6)


def test_parameters_count_what_all_tasks_store():
    accuracies = {"full": {"a": [0.9], "b": [0.8]}, "fine_tuning": {"a": [0.9], "b": [0.8]}}
    table = summary(accuracies, {"full": 50, "fine_tuning": 1000}, 1000)
    assert table["full"]["parameters"] == pytest.approx(1.1)
    assert table["full"]["score_per_parameter"] == pytest.approx(500 / 1.1)
