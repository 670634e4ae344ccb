# SPDX-License-Identifier: Apache-2.0
import json
import shutil

import cv2
import numpy as np
import pytest

from newfound_core.storage import read_json
from newfound_training.commands import main
from newfound_training.detector.cut_crops import jittered


def test_crops_are_a_tree_of_squares_around_the_objects(boxes_data, tmp_path):
    out = tmp_path / "crops"
    options = ["--data", str(boxes_data), "--out", str(out), "--least-side", "4"]
    assert main(["cut-crops", *options, "--jitter", "0", "--margin", "0"]) == 0
    assert read_json(out / "result.json")["crops"] == {"cup": 16, "mug": 8}
    crops = sorted((out / "train").glob("*/*.jpg"))
    assert len(crops) == 24
    assert crops[0].parent.name == "cup"
    pixels = cv2.imread(str(crops[0]))
    assert abs(pixels.shape[0] - pixels.shape[1]) <= 1
    assert np.median(pixels) > 100  # the bright object fills most of it


def test_only_wanted_and_large_enough_objects_are_cut_out(boxes_data, tmp_path, capsys):
    options = ["--data", str(boxes_data), "--classes", "mug", "--split", "test"]
    assert main(["cut-crops", *options, "--out", str(tmp_path / "a")]) == 0
    assert [p.name for p in (tmp_path / "a" / "test").iterdir()] == ["mug"]
    huge = ["--least-side", "1000", "--out", str(tmp_path / "b")]
    assert main(["cut-crops", *options, *huge]) == 1
    assert "no object of the wanted classes" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../../x", "/x", "..", "a/b", " ", ".hidden"])
def test_a_class_whose_name_leads_elsewhere_is_refused(boxes_data, tmp_path, name, capsys):
    data = shutil.copytree(boxes_data / "bright", tmp_path / "data")
    document = json.loads((data / "annotations.json").read_text())
    document["categories"][0]["name"] = name
    (data / "annotations.json").write_text(json.dumps(document))
    options = ["--data", str(data), "--out", str(tmp_path / "out")]
    assert main(["cut-crops", *options]) == 1
    assert "cannot be the name of a folder" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())
    options[-1] = str(tmp_path / "cups")
    assert main(["cut-crops", *options, "--classes", "cup"]) == 0


def test_large_crops_are_reduced(boxes_data, tmp_path):
    options = ["--data", str(boxes_data), "--out", str(tmp_path / "c"), "--size", "16"]
    assert main(["cut-crops", *options]) == 0
    shapes = {cv2.imread(str(p)).shape for p in (tmp_path / "c").rglob("*.jpg")}
    assert max(max(shape) for shape in shapes) == 16


def test_sides_move_by_a_share_of_their_length_at_most():
    boxes = np.array([[10, 10, 110, 30]], np.float32).repeat(200, 0)
    moved = jittered(boxes, 0.1, np.random.default_rng(0)) - boxes
    assert 9 < np.abs(moved[:, [0, 2]]).max() <= 10
    assert 1.8 < np.abs(moved[:, [1, 3]]).max() <= 2
