# SPDX-License-Identifier: Apache-2.0
"""Masks cut out of the depth of a table with two boxes on it."""

import json

import cv2
import numpy as np
import pytest

from newfound_core.storage import read_json
from newfound_training.commands import main

MUG, TIN = (100, 80, 160, 140), (300, 200, 420, 240)  # left, top, right, bottom


def plane(offset):
    """Depth of a tilted plane for a camera of 640 x 480."""
    normal = np.array([0.05, 0.75, 0.65])
    v, u = np.mgrid[:480, :640]
    rays = np.stack([(u - 320) / 525, (v - 240) / 525, np.ones((480, 640))])
    z = offset * np.linalg.norm(normal) / np.maximum(np.tensordot(normal, rays, 1), 1e-6)
    return np.where(z > 5, 0, z)


@pytest.fixture
def recorded(tmp_path):
    """Three frames as an RGB-D camera and the detector leave them; the last shows no mug."""
    data = tmp_path / "data"
    (data / "images").mkdir(parents=True)
    (data / "depth").mkdir()
    document = {
        "images": [{"id": n, "file_name": f"{n}.png"} for n in range(3)],
        "categories": [{"id": 1, "name": "mug"}, {"id": 2, "name": "tin"}],
        "annotations": [],
    }
    for number in range(3):
        depth = plane(0.5)
        things = [(MUG, 1, 0.06), (TIN, 2, 0.03)] if number < 2 else [(TIN, 2, 0.03)]
        for (left, top, right, bottom), category, height in things:
            depth[top:bottom, left:right] = plane(0.5 - height)[top:bottom, left:right]
            box = [left, top, right - left, bottom - top]
            entry = {"image_id": number, "category_id": category, "bbox": box}
            document["annotations"].append(entry)
        cv2.imwrite(str(data / "images" / f"{number}.png"), np.full((480, 640, 3), 120, np.uint8))
        cv2.imwrite(str(data / "depth" / f"{number}.png"), (1000 * depth).astype(np.uint16))
    (data / "annotations.json").write_text(json.dumps(document))
    return data


def test_boxes_and_depth_become_masks_that_can_be_learned_from(recorded, tmp_path, undocumented):
    out = tmp_path / "out"
    assert main(["cut-masks", "--data", str(recorded), "--label", "mug", "--out", str(out)]) == 0
    result = read_json(out / "result.json")
    assert not undocumented("cut-masks", result)
    assert result["with_class"] == 2
    assert result["images"] == 3
    masks = [cv2.imread(str(p), cv2.IMREAD_UNCHANGED) for p in sorted((out / "labels").iterdir())]
    true = np.zeros((480, 640), bool)
    true[MUG[1] : MUG[3], MUG[0] : MUG[2]] = True
    for mask in masks[:2]:
        found = mask == 1
        assert (found & true).sum() / (found | true).sum() > 0.7
        assert (mask[215:225, 320:400] == 0).all()  # the tin has another label
    assert not (masks[2] == 1).any()
    assert (masks[2] == 0).mean() > 0.8


def test_a_label_that_no_box_has_is_refused(recorded, tmp_path, capsys):
    arguments = ["--data", str(recorded), "--label", "cup", "--out", str(tmp_path / "out")]
    assert main(["cut-masks", *arguments]) == 1
    assert "no region of depth fits a box of 'cup' in 3 pictures" in capsys.readouterr().err
