# SPDX-License-Identifier: Apache-2.0
"""The command on drawn pictures, with a tiny model that knows one of their two classes."""

import cv2
import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.models import save_model
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.inputs import Inputs
from newfound_core.open_world.learner import learn_step
from newfound_core.open_world.memory import Memory, Sample
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.step_config import StepConfig
from newfound_core.preprocessing import Preprocessing
from newfound_core.storage import read_json
from newfound_training.commands import main
from newfound_training.detector.coco import read_pictures, read_rgb


@pytest.fixture(scope="module")
def bench(boxes_data, tmp_path_factory):
    """The pictures with depth: every object stands on a plane that tilts away."""
    inverse = np.linspace(1 / 1100, 1 / 900, 48)  # a plane is linear in inverse depth
    plane = (1 / inverse[:, None]).repeat(64, 1)
    for picture in read_pictures(boxes_data):
        depth = plane.copy()
        for left, top, right, bottom in picture.boxes.astype(int):
            depth[top:bottom, left:right] *= 0.9
        folder = picture.path.parents[1] / "depth"
        folder.mkdir(exist_ok=True)
        cv2.imwrite(str(folder / f"{picture.path.stem}.png"), depth.astype(np.uint16))
    return boxes_data


@pytest.fixture(scope="module")
def model(bench, tmp_path_factory):
    torch.manual_seed(0)
    backbone = build_backbone("cifar_resnet20", width=0.25)
    learner = OpenWorldModel(backbone, build_head("bdoc", backbone.feature_dim))
    cups = [p for p in read_pictures(bench) if p.labels == ("cup",)]
    samples = [Sample(read_rgb(picture), "cup", picture.path.name) for picture in cups]
    preprocessing = Preprocessing(16)
    step = learn_step(learner, samples, Memory(), Inputs(preprocessing), StepConfig(epochs=0))
    folder = tmp_path_factory.mktemp("model") / "checkpoint"
    return save_model(folder, step.model, ["cup"], preprocessing)


def test_every_object_is_accounted_for(bench, model, tmp_path, undocumented):
    out = tmp_path / "out"
    arguments = ["--data", str(bench), "--checkpoint", str(model), "--out", str(out)]
    assert main(["evaluate-detector", *arguments]) == 0
    result = read_json(out / "result.json")
    assert (result["pictures"], result["known_classes"]) == (24, ["cup"])
    depth = result["proposers"]["depth"]
    assert depth["objects"] == {"known": 16, "unknown": 8}
    assert depth["recall"] == 1.0  # they stand out of the plane, all of them
    assert sum(depth["classes"]["mug"].values()) == 8
    assert (out / "outcomes.png").stat().st_size > 1000
    assert not undocumented("evaluate-detector", result, {"depth", "cup", "mug"})


def test_what_is_missing_is_said(bench, model, tmp_path, capsys):
    arguments = ["--checkpoint", str(model), "--out", str(tmp_path / "out")]
    regions = ["--data", str(bench), *arguments, "--proposers", "regions"]
    assert main(["evaluate-detector", *regions]) == 2
    assert "--proposer-checkpoint" in capsys.readouterr().err
    lost = next((bench / "dark" / "depth").iterdir())
    lost.write_bytes(b"")
    assert main(["evaluate-detector", "--data", str(bench), *arguments]) == 1
    assert lost.name in capsys.readouterr().err
