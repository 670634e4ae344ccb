# SPDX-License-Identifier: Apache-2.0
import json
import shutil

import pytest

from newfound_core.detection.region_proposer import load_region_proposer
from newfound_training.commands import main
from newfound_training.detector.coco import read_pictures
from newfound_training.detector.task import read_rgb

SMALL = [
    "--backbone", "cifar_resnet20", "--weights", "random", "--frozen-stages", "0",
    "--image-size", "48", "--strides", "2", "4", "--anchor-sizes", "14", "22", "--channels", "16",
    "--batch-size", "4", "--new-lr", "0.02", "--lr", "0.02", "--warmup", "5",
]  # fmt: skip


@pytest.mark.slow
def test_it_learns_to_find_objects_and_its_checkpoint_does(boxes_data, tmp_path):
    arguments = ["train-detector", "--data", str(boxes_data), "--out", str(tmp_path / "out")]
    assert main([*arguments, *SMALL, "--iterations", "60", "--leave-out", "mug"]) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (result["training_images"], result["validation_images"]) == (14, 2)
    assert result["left_out_images"] == 8
    assert 0 <= result["recall_10"] <= result["recall_100"] <= 1
    assert result["recall_100"] == 1
    proposer = load_region_proposer(str(tmp_path / "out" / "checkpoint"))
    found = proposer.propose(read_rgb(read_pictures(boxes_data)[0]), None)
    assert len(found) > 0


@pytest.mark.slow
def test_killed_at_once_and_resumed_it_ends_with_the_same_weights(
    boxes_data, same_weights_after_a_kill
):
    arguments = ["train-detector", "--data", boxes_data, *SMALL]
    same_weights_after_a_kill(*arguments, "--iterations", 40, "--save-every", 3, "--out")


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-500])  # its header is whole, its pixels are not


def test_a_corrupt_picture_is_listed_and_left_out_or_fatal(
    boxes_data, tmp_path, capsys, undocumented
):
    data = shutil.copytree(boxes_data, tmp_path / "data")
    cut_off(data / "dark" / "images" / "0003.png")
    arguments = ["train-detector", "--data", str(data), *SMALL, "--iterations", "1"]
    assert main([*arguments, "--out", str(tmp_path / "strict"), "--strict"]) == 1
    assert "1 of 24 images" in capsys.readouterr().err
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert not undocumented("train-detector", result)
    assert result["corrupt_images"] == [str(data / "dark" / "images" / "0003.png")]
    assert result["training_images"] + result["validation_images"] == 23

    cut_off(data / "dark" / "images" / "0004.png")
    assert main([*arguments, "--out", str(tmp_path / "out"), "--resume"]) == 2
    assert "files were added, changed or removed" in capsys.readouterr().err


def test_a_run_in_which_nothing_is_left_is_refused(boxes_data, tmp_path, capsys):
    arguments = ["train-detector", "--data", str(boxes_data), "--out", str(tmp_path / "out")]
    assert main([*arguments, *SMALL, "--leave-out", "mug", "cup"]) != 0
    assert "--leave-out" in capsys.readouterr().err
