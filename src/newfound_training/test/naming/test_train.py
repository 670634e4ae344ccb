# SPDX-License-Identifier: Apache-2.0
import json
import shutil
from dataclasses import replace

import pytest
import torch

from newfound_core.models import load_model
from newfound_core.naming import NamingModel
from newfound_training.commands import find, main
from newfound_training.naming.train import build
from newfound_training.running.options import make_options, preset_names, read_preset

FAST = ("--iterations", 6, "--epoch-steps", 2, "--warm-up", 1, "--batch-size", 8,
        "--image-size", 32, "--backbone", "cifar_resnet8", "--weights", "random",
        "--frozen-stages", 0, "--image-mix", 0.5, "--save-every", 2,
        "--schedule", "constant")  # fmt: skip


@pytest.fixture
def arguments(tree, words, stock, tmp_path):
    def make(*more, out="out"):
        given = ("--data", tree, "--words", words, "--vocabulary", stock, "--out", tmp_path / out)
        return [str(value) for value in ("train-names", *given, *FAST, *more)]

    return make


def test_images_and_words_become_a_checkpoint_that_names(arguments, tmp_path, undocumented):
    assert main(arguments()) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert undocumented("train-names", found) == set()
    loaded = load_model(tmp_path / "out" / "checkpoint", "cumix")
    assert loaded.labels == ("blue", "green", "red")
    model = loaded.model
    assert isinstance(model, NamingModel)
    assert model.vocabulary == ("hammer", "teapot", "red square")
    shares = model.own_vocabulary().shares
    assert found["span_share_mean"] == pytest.approx(shares.mean(), abs=1e-3)
    assert shares[0] < 0.9  # three classes do not span a hammer
    assert model.projection.weight.abs().sum() > 0  # it started at zero


def test_an_interrupted_training_resumes_to_the_same_weights(arguments, tmp_path):
    assert main(arguments(out="whole")) == 0
    assert main(arguments("--iterations", 4, out="parts")) == 0
    (tmp_path / "parts" / "run.json").write_bytes((tmp_path / "whole" / "run.json").read_bytes())
    assert main(arguments("--resume", out="parts")) == 0
    first, second = (load_model(tmp_path / out / "checkpoint").model.state_dict()
                     for out in ("whole", "parts"))  # fmt: skip
    assert all(torch.allclose(first[name], second[name], atol=2e-3) for name in first)


def test_a_name_without_a_vector_is_told(arguments, tmp_path, capsys):
    (tmp_path / "names.txt").write_text("teapott\n")
    assert main(arguments("--vocabulary", tmp_path / "names.txt")) == 1
    assert "similar: teapot" in capsys.readouterr().err


def test_a_domain_of_one_image_and_a_single_class_are_refused(arguments, tree, tmp_path, capsys):
    data = shutil.copytree(tree, tmp_path / "data")
    for path in sorted((data / "dark").iterdir())[1:]:
        shutil.rmtree(path)
    for image in sorted(next((data / "dark").iterdir()).iterdir())[1:]:
        image.unlink()
    given = ("--data", data, "--validation-share", 0)
    assert main(arguments(*given)) == 1
    assert "fewer of dark" in capsys.readouterr().err
    for domain in ("bright", "dark"):
        shutil.copytree(tree / domain / "red", tmp_path / "one" / domain / "red")
    assert main(arguments("--data", tmp_path / "one", out="class")) == 2
    assert "two seen classes" in capsys.readouterr().err


def test_one_name_in_two_files_is_one_name(arguments, stock, tmp_path):
    (tmp_path / "more.txt").write_text("Red_Square\n")
    assert main(arguments("--vocabulary", stock, tmp_path / "more.txt", "--iterations", 1)) == 0
    model = load_model(tmp_path / "out" / "checkpoint").model
    assert model.vocabulary == ("hammer", "teapot", "red square")


@pytest.mark.parametrize("preset", preset_names("train-names"))
def test_every_preset_makes_a_network_that_runs(preset, words, stock):
    options = make_options(find("train-names").options, read_preset("train-names", preset))
    given = {"weights": "random", "words": str(words), "vocabulary": (str(stock),)}
    model = build(replace(options, **given), ("red", "green"))
    assert model(torch.zeros(2, 3, 64, 64)).shape == (2, 2)
