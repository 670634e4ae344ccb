# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError, DataError
from newfound_training.detector.coco import Picture, read_pictures
from newfound_training.detector.options import DetectorOptions
from newfound_training.detector.task import DetectorTask, build_network, read_rgb, recalls
from newfound_training.running.run import Run

OPTIONS = {
    "data": "-", "out": "-", "backbone": "cifar_resnet20", "weights": "random", "image_size": 48,
    "strides": (2, 4), "anchor_sizes": (14.0, 22.0), "channels": 8, "frozen_stages": 1,
    "batch_size": 4, "colour_jitter": 0.0,
}  # fmt: skip


@pytest.fixture
def task(boxes_data, tmp_path):
    run = Run("train-detector", tmp_path, torch.device("cpu"), 1, "data")
    return DetectorTask(read_pictures(boxes_data), DetectorOptions(**OPTIONS), run)


def test_boxes_stay_on_their_objects_when_a_picture_is_mirrored(task):
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


def test_frozen_stages_do_not_train():
    network = build_network(DetectorOptions(**OPTIONS))
    assert not any(p.requires_grad for p in network.backbone.stem.parameters())
    assert all(p.requires_grad for p in network.pyramid.parameters())
    with pytest.raises(ConfigError, match="cannot be frozen"):
        build_network(DetectorOptions(**OPTIONS | {"frozen_stages": 99}))


def test_recall_counts_objects_covered_by_the_best_proposals(task):
    class Perfect(torch.nn.Module):
        def __init__(self, boxes):
            super().__init__()
            self.boxes = boxes

        def forward(self, images):
            return [(self.boxes, torch.ones(len(self.boxes)))]

    picture = task.training_set[0]
    truth = torch.from_numpy(picture.boxes * np.array([0.75, 1, 0.75, 1], np.float32))
    wrong = torch.zeros(10, 4) + torch.tensor([0.0, 0, 1, 1])
    first = Perfect(torch.cat([truth, wrong]))
    last = Perfect(torch.cat([wrong, truth]))
    device = torch.device("cpu")
    assert recalls(first, [picture], task.preprocessing, device)["recall_10"] == 1
    found = recalls(last, [picture], task.preprocessing, device)
    assert found == {"recall_10": 0.0, "recall_100": 1.0}


def test_a_picture_that_cannot_be_decoded_is_named(tmp_path):
    path = tmp_path / "x.jpg"
    path.write_text("no image")
    with pytest.raises(DataError, match=r"x\.jpg cannot be decoded"):
        read_rgb(Picture(path, np.zeros((0, 4), np.float32), ()))
