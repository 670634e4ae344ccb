# SPDX-License-Identifier: Apache-2.0

import json
import shutil

import numpy as np
import pytest
import torch

from newfound_core.detection.region_proposer import load_region_proposer
from newfound_core.errors import CheckpointError, ConfigError, DataError
from newfound_core.models import load_model
from newfound_training.commands import main
from newfound_training.detector.coco import Picture, read_pictures, read_rgb
from newfound_training.detector.options import DetectorOptions
from newfound_training.detector.train import DetectorTask, build_network, proposed
from newfound_training.running.command import Run

OPTIONS = {
    "data": "-", "out": "-", "backbone": "cifar_resnet20", "weights": "random", "image_size": 48,
    "strides": (2, 4), "channels": 8, "layers": 1, "refined": 16, "frozen_stages": 1,
    "batch_size": 4, "colour_jitter": 0.0, "crop_area": 1.0,
}  # fmt: skip


@pytest.fixture
def task(boxes_data, tmp_path):
    run = Run("train-detector", tmp_path, torch.device("cpu"), 1, "data")
    return DetectorTask({"boxes": read_pictures(boxes_data)}, DetectorOptions(**OPTIONS), run)


def test_boxes_stay_on_their_objects_when_a_picture_is_varied(task):
    for step in range(3):
        batch = task.batch(step)
        for image, boxes in zip(batch.images, batch.boxes, strict=True):
            left, top, right, bottom = boxes[0].round().int().tolist()
            inside = image[:, top + 1 : bottom - 1, left + 1 : right - 1].mean()
            outside = image.clone()
            outside[:, top - 1 : bottom + 1, left - 1 : right + 1] = float("nan")
            assert inside > outside.nanmean() + 1


def test_a_batch_depends_on_seed_and_step_alone(task):
    assert torch.equal(task.batch(3).images, task.batch(3).images)
    assert not torch.equal(task.batch(3).images, task.batch(4).images)


def test_sources_are_drawn_by_their_shares(boxes_data, tmp_path):
    run = Run("train-detector", tmp_path, torch.device("cpu"), 1, "data")
    pictures = read_pictures(boxes_data)
    options = DetectorOptions(
        **OPTIONS | {"sources": ("few", "many"), "source_shares": (3, 1), "validation_share": 0.25}
    )
    task = DetectorTask({"few": pictures[:4], "many": pictures[4:]}, options, run)
    assert {name: len(of) for name, of in task.validation_set.items()} == {"few": 1, "many": 5}
    assert len(task.training_set) == 18
    np.testing.assert_allclose(task._probabilities[:3], 0.25)
    np.testing.assert_allclose(task._probabilities[3:], 0.25 / 15)


def test_frozen_stages_do_not_train():
    network = build_network(DetectorOptions(**OPTIONS))
    assert not any(p.requires_grad for p in network.backbone.stem.parameters())
    assert all(p.requires_grad for p in network.pyramid.parameters())
    with pytest.raises(ConfigError, match="can be frozen"):
        build_network(DetectorOptions(**OPTIONS | {"frozen_stages": 99}))


def test_what_is_proposed_is_compared_at_the_size_of_the_network(task):
    class Perfect(torch.nn.Module):
        def forward(self, images):
            return [(torch.from_numpy(truth), torch.ones(len(truth)))]

    picture = task.training_set[0]
    truth = picture.boxes * np.array([0.75, 1, 0.75, 1], np.float32)
    found = proposed(Perfect(), [picture], task.preprocessing, torch.device("cpu"))
    np.testing.assert_allclose(found[0].truth, found[0].boxes)


def test_a_picture_that_cannot_be_decoded_is_named(tmp_path):
    path = tmp_path / "x.jpg"
    path.write_text("no image")
    with pytest.raises(DataError, match=r"x\.jpg cannot be decoded"):
        read_rgb(Picture(path, np.zeros((0, 4), np.float32), ()))


SMALL = [
    "--backbone", "cifar_resnet20", "--weights", "random", "--frozen-stages", "0",
    "--image-size", "48", "--strides", "2", "4", "--channels", "16", "--layers", "1",
    "--refined", "16", "--batch-size", "4", "--new-lr", "0.02", "--lr", "0.02", "--warmup", "5",
]  # fmt: skip


@pytest.mark.slow
def test_it_learns_to_find_objects_and_its_checkpoint_does(boxes_data, tmp_path):
    arguments = ["train-detector", "--data", str(boxes_data), "--out", str(tmp_path / "out")]
    assert main([*arguments, *SMALL, "--iterations", "60", "--leave-out", "mug"]) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (result["training_images"], result["validation_images"]) == (14, 2)
    assert result["left_out_images"] == 8
    found = result["validation"]["data"]
    assert found["recall_10"] == 1
    assert found["ar_10"] > 0.3
    checkpoint = tmp_path / "out" / "checkpoint"
    proposer = load_region_proposer(str(checkpoint))
    assert proposer.min_objectness == result["min_objectness"] > 0
    found = proposer.propose(read_rgb(read_pictures(boxes_data)[0]), None)
    assert len(found) > 0
    again = build_network(
        DetectorOptions(**OPTIONS | {"channels": 16, "start": str(checkpoint)})
    ).state_dict()
    stored = load_model(checkpoint).model.state_dict()
    assert all(torch.equal(again[name], stored[name]) for name in stored)
    with pytest.raises(CheckpointError, match="do not fit"):
        build_network(DetectorOptions(**OPTIONS | {"start": str(checkpoint)}))


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
    assert not undocumented("train-detector", result, ["data"])
    assert result["corrupt_images"] == [str(data / "dark" / "images" / "0003.png")]
    assert result["training_images"] + result["validation_images"] == 23

    cut_off(data / "dark" / "images" / "0004.png")
    assert main([*arguments, "--out", str(tmp_path / "out"), "--resume"]) == 2
    assert "files were added, changed or removed" in capsys.readouterr().err


def test_a_run_in_which_nothing_is_left_is_refused(boxes_data, tmp_path, capsys):
    arguments = ["train-detector", "--data", str(boxes_data), "--out", str(tmp_path / "out")]
    assert main([*arguments, *SMALL, "--leave-out", "mug", "cup"]) != 0
    assert "--leave-out" in capsys.readouterr().err
