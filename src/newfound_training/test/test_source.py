# SPDX-License-Identifier: Apache-2.0

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.models import load_model
from newfound_training.commands import main
from newfound_training.data import load_pixels, open_images
from newfound_training.running.command import Run
from newfound_training.running.distributed import DistributedGroup
from newfound_training.source import SourceOptions, SourceTask, build_classifier


@pytest.mark.parametrize(
    "wrong", [{"crop_area": (0.5,)}, {"frozen_stages": -1}, {"batch_size": 0}]
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        SourceOptions(**wrong)


OPTIONS = SourceOptions(
    backbone="cifar_resnet20", weights="random", image_size=32, batch_size=8, frozen_stages=0
)


@pytest.fixture
def make_task(tree, tmp_path):
    pixels = load_pixels(open_images(tree), 32).in_domain("bright")

    def make(process_group=None, seed=0):
        return SourceTask(
            pixels,
            OPTIONS,
            Run(
                "test",
                tmp_path,
                torch.device("cpu"),
                seed,
                "",
                process_group or DistributedGroup(),
            ),
        )

    return make


def test_a_batch_is_a_function_of_seed_and_step(make_task):
    one, other = make_task(), make_task()
    assert torch.equal(one.batch(5).images, other.batch(5).images)
    assert not torch.equal(one.batch(5).images, one.batch(6).images)
    assert not torch.equal(one.batch(5).images, make_task(seed=1).batch(5).images)


def test_two_processes_see_what_one_sees(make_task):
    whole = make_task().batch(2)
    halves = [make_task(DistributedGroup(rank, 2)).batch(2) for rank in range(2)]
    assert torch.equal(whole.images[0::2], halves[0].images)
    assert torch.equal(whole.images[1::2], halves[1].images)
    assert torch.equal(whole.labels[1::2], halves[1].labels)


def test_held_out_images_are_never_trained_on(make_task):
    task = make_task()
    assert not set(task.training_set) & set(task.validation_set)
    assert len(task.training_set) + len(task.validation_set) == 24


def test_images_that_belong_together_are_held_out_together(tree, tmp_path):
    pixels = load_pixels(open_images(tree), 32)
    names = tuple(f"{i % 8 // 2}" for i in range(len(pixels)))  # pairs of each folder
    pixels = replace(pixels, images=replace(pixels.images, groups=names))
    options = replace(OPTIONS, validation_share=0.25)
    task = SourceTask(pixels, options, Run("test", tmp_path, torch.device("cpu"), 0, ""))
    held_out = {names[i] for i in task.validation_set}
    assert len(held_out) == 1
    assert not held_out & {names[i] for i in task.training_set}


def test_the_network_starts_the_same_for_the_same_seed(make_task):
    one, other = make_task().model, make_task().model
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_accuracy_is_that_of_the_held_out_images(make_task):
    task = make_task()
    task.model.eval()
    images = task.preprocessing.batch([task._pixels[i] for i in task.validation_set])
    with torch.no_grad():
        predicted = task.model(images).argmax(1).numpy()
    expected = np.mean(predicted == task._pixels.images.labels[task.validation_set])
    assert task.evaluate() == {"validation_accuracy": pytest.approx(expected)}


def test_frozen_stages_keep_their_weights_but_not_their_statistics(make_task):
    model = build_classifier(replace(OPTIONS, frozen_stages=2), 3)
    assert not any(p.requires_grad for p in model.backbone.stem.parameters())
    assert all(p.requires_grad for p in model.classifier.parameters())
    assert model.train().backbone.stem.training


def test_more_stages_than_there_are_cannot_be_frozen():
    with pytest.raises(ConfigError, match="can be frozen"):
        build_classifier(replace(OPTIONS, frozen_stages=99), 3)


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


def test_killed_at_once_and_resumed_it_ends_with_the_same_weights(tree, same_weights_after_a_kill):
    arguments = ["train-source", "--data", tree, "--domains", "bright", *TINY]
    arguments += ["--iterations", 40, "--save-every", 3, "--out"]
    same_weights_after_a_kill(*arguments)
