# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from newfound_core.classifier import Classifier
from newfound_core.errors import TrainingError
from newfound_core.latent import UNKNOWN, LatentClassifier, LatentConfig, from_source
from newfound_core.models import load_model
from newfound_core.resume import STATE_NAME
from newfound_training.commands import main
from newfound_training.data import load_pixels, open_images
from newfound_training.latent.options import LatentOptions
from newfound_training.latent.task import (
    LatentTask,
    Start,
    Target,
    known_source_domains,
    source_domains,
)
from newfound_training.running.command import Run

FAST = ("--iterations", 4, "--branch-start-steps", 4, "--batch-size", 16, "--save-every", 2)


@pytest.fixture
def arguments(tree, checkpoint, tmp_path):
    def make(*more, out="out"):
        given = ("--data", tree, "--domains", "bright", "--checkpoint", checkpoint, "--footage",
                 tree, "--out", tmp_path / out, "--target-domains", 2, *more)  # fmt: skip
        return [str(value) for value in ("train-latent", *given)]

    return make


def result(tmp_path, out="out"):
    return json.loads((tmp_path / out / "result.json").read_text())


@pytest.mark.parametrize("method", ["clusters", "mda"])
def test_footage_becomes_a_checkpoint_that_names_its_domains(
    arguments, tmp_path, undocumented, method
):
    assert main(arguments("--method", method, *FAST)) == 0
    found = result(tmp_path)
    assert undocumented("train-latent", found) == set()
    assert (found["footage_frames"], found["frames_used"], found["method"]) == (48, 48, "mda")
    assert sum(found["mean_weights"]) == pytest.approx(1, abs=1e-3)
    loaded = load_model(tmp_path / "out" / "checkpoint", "mda")
    assert loaded.metadata.domains == ("target_0", "target_1")
    assert isinstance(loaded.model, LatentClassifier)
    assert 0 < loaded.model.source_confidence <= 1
    assert (tmp_path / "out" / "domains.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "checkpoint" / "README.md").exists()


@pytest.mark.parametrize("method", ["clusters", "mda"])
def test_one_domain_is_exported_as_a_source_model(arguments, tmp_path, method):
    assert main(arguments("--method", method, *FAST, "--target-domains", "1")) == 0
    loaded = load_model(tmp_path / "out" / "checkpoint", "source")
    assert isinstance(loaded.model, Classifier)
    assert result(tmp_path)["method"] == "source"


def test_a_killed_training_goes_on_to_the_same_weights(arguments, tmp_path, kill_command):
    more = ("--method", "mda", *FAST)
    assert main(arguments(*more)) == 0
    kill_command(tmp_path / "killed" / STATE_NAME, *arguments(*more, out="killed"))
    assert main([*arguments(*more, out="killed"), "--resume"]) == 0
    whole = load_model(tmp_path / "out" / "checkpoint").model.state_dict()
    resumed = load_model(tmp_path / "killed" / "checkpoint").model.state_dict()
    for name, value in whole.items():
        torch.testing.assert_close(resumed[name], value, msg=name)


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (("--target-domains", "0"), 2, "at least 1 target domain"),
        (("--frames", "1"), 2, "frames must be at least 2"),
        (("--no-train-source",), 2, "not both"),
        (("--known-domains", "5"), 2, "must be a share"),
        (("--target-domains", "60"), 1, "cannot be sorted into 60 domains"),
        (("--method", "mda", "--batch-size", "6", "--iterations", "2"), 1, "too small"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(arguments, capsys, more, code, message):
    assert main(arguments(*more)) == code
    assert message in capsys.readouterr().err


def test_known_domains_of_labelled_images_are_learned_by_their_branch(tree, checkpoint, tmp_path):
    pixels, loaded = load_pixels(open_images(tree), 32), load_model(checkpoint)
    options = LatentOptions(
        batch_size=32, data=str(tree), known_domains=0.5, branch_start_steps=60, seed=1
    )
    assert source_domains(pixels, options) == 2
    model = from_source(loaded.model, options.latent(2, 1))
    start = Start(loaded.model, loaded.metadata.preprocessing, pixels)
    run = Run("train-latent", tmp_path, torch.device("cpu"), 1, "")
    task = LatentTask(model.train(), start, Target(pixels), options, run)
    batch = task.batch(0)
    known = batch.domains[~batch.is_target] >= 0
    assert 0 < known.sum() < len(known)
    assert (batch.domains[batch.is_target] == UNKNOWN).all()
    assert float(task.loss(batch)["source_domains"].detach()) < 0.5 * np.log(2) / 2
    everything = known_source_domains(pixels, replace(options, known_domains=1.0), 1)
    np.testing.assert_array_equal(everything, pixels.images.domains)


def test_a_command_takes_the_folders_of_labelled_images_as_domains(arguments, tmp_path, capsys):
    more = ("--method", "mda", *FAST, "--known-domains", "0.5")
    assert main(arguments(*more)) == 2
    assert "known_domains needs two domains" in capsys.readouterr().err
    assert main(arguments(*more, "--domains", "bright", "dark", out="two")) == 0
    # The source's domains serve in training alone.
    assert load_model(tmp_path / "two" / "checkpoint").model.domains == 2


def test_a_domain_of_few_frames_is_warned_of(arguments, caplog):
    assert main(arguments("--target-domains", "4")) == 0
    assert "frames only: its statistics are uncertain" in caplog.text


def test_classes_that_collapse_stop_the_training(tree, checkpoint, tmp_path):
    pixels = load_pixels(open_images(tree), 32)
    loaded = load_model(checkpoint)
    options = LatentOptions(batch_size=8, data=str(tree), branch_start="random")
    model = from_source(loaded.model, LatentConfig(1, 1))
    with torch.no_grad():
        model.classifier.bias[1] += 100.0
    start = Start(loaded.model, loaded.metadata.preprocessing, pixels)
    run = Run("train-latent", tmp_path, torch.device("cpu"), 0, "")
    task = LatentTask(model.train(), start, Target(pixels), options, run)
    with pytest.raises(TrainingError, match="the classes of the target have collapsed"):
        task.loss(task.batch(0))


def test_the_branchs_gradient_is_clipped_and_nothing_else(tree, checkpoint, tmp_path):
    pixels, loaded = load_pixels(open_images(tree), 32), load_model(checkpoint)
    options = LatentOptions(batch_size=12, data=str(tree), branch_start="random")
    model = from_source(loaded.model, LatentConfig(1, 2))
    start = Start(loaded.model, loaded.metadata.preprocessing, pixels)
    run = Run("train-latent", tmp_path, torch.device("cpu"), 0, "")
    task = LatentTask(model.train(), start, Target(pixels), options, run)
    (1e4 * sum(task.loss(task.batch(0)).values())).backward()
    before = model.classifier.weight.grad.clone()
    task.after_backward()
    norms = [float(p.grad.norm()) for p in model.branches.parameters()]
    assert np.linalg.norm(norms) == pytest.approx(1, rel=1e-3)
    assert model.classifier.weight.grad.equal(before)
