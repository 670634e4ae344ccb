# SPDX-License-Identifier: Apache-2.0
import json
import shutil

import pytest

from newfound_core.models import load_model
from newfound_training.commands import main

TINY = ["--backbone", "cifar_resnet20", "--weights", "random", "--image-size", "32"]
TINY += ["--frozen-stages", "0", "--batch-size", "8"]


def test_images_become_a_checkpoint_with_a_card_and_a_result(tree, tmp_path, undocumented):
    out = tmp_path / "out"
    arguments = ["--data", str(tree), "--domains", "bright", "--out", str(out)]
    assert main(["train-source", *arguments, *TINY, "--iterations", "30"]) == 0
    result = json.loads((out / "result.json").read_text())
    assert not undocumented("train-source", result)
    assert result["classes"] == ["blue", "green", "red"]
    assert result["training_images"] + result["validation_images"] == 24
    assert result["validation_accuracy"] == 1.0  # three colours are easy
    assert (out / "confusion.png").stat().st_size
    loaded = load_model(out / result["checkpoint"], "source")
    assert loaded.labels == ("blue", "green", "red")
    assert "trained on bright" in (out / "checkpoint" / "README.md").read_text()


def test_a_class_missing_in_one_of_the_domains_stops_at_once(tree, tmp_path, make_image, capsys):
    make_image(tmp_path / "data" / "a" / "cup" / "0.png", (9, 9, 9), 0)
    make_image(tmp_path / "data" / "a" / "mug" / "0.png", (9, 9, 9), 0)
    make_image(tmp_path / "data" / "b" / "cup" / "0.png", (9, 9, 9), 0)
    arguments = ["--data", str(tmp_path / "data"), "--out", str(tmp_path / "out"), *TINY]
    assert main(["train-source", *arguments]) == 1
    assert "has no images of mug" in capsys.readouterr().err


def test_it_does_not_resume_on_other_images(tree, tmp_path, make_image, capsys):
    data = shutil.copytree(tree, tmp_path / "data")
    arguments = ["--data", str(data), "--domains", "bright", "--out", str(tmp_path / "out")]
    assert main(["train-source", *arguments, *TINY, "--iterations", "1"]) == 0
    make_image(data / "dark" / "red" / "new.png", (9, 9, 9), 0)  # in a domain that is not used
    assert main(["train-source", *arguments, *TINY, "--iterations", "1", "--resume"]) == 0
    make_image(data / "bright" / "red" / "new.png", (9, 9, 9), 0)
    assert main(["train-source", *arguments, *TINY, "--iterations", "1", "--resume"]) != 0
    assert "files were added, changed or removed" in capsys.readouterr().err


def test_training_that_goes_astray_leaves_no_checkpoint(tree, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["--data", str(tree), "--domains", "bright", "--out", str(out), *TINY]
    assert main(["train-source", *arguments, "--iterations", "6", "--new-lr", "1e30"]) == 1
    assert "no longer a finite number" in capsys.readouterr().err
    assert not (out / "checkpoint").exists()


@pytest.mark.slow
def test_killed_at_once_and_resumed_it_ends_with_the_same_weights(tree, same_weights_after_a_kill):
    arguments = ["train-source", "--data", tree, "--domains", "bright", *TINY]
    arguments += ["--iterations", 40, "--save-every", 3, "--out"]
    same_weights_after_a_kill(*arguments)
