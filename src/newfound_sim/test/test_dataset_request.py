# SPDX-License-Identifier: Apache-2.0
import pytest
from newfound_sim.dataset_request import CropRequest, DetectionRequest, find_classes, keep, stream
from newfound_sim.errors import DatasetError

ONE = {"domains": ("cloudy_webcam_white",), "classes": ("mug",), "images": 1}


def test_groups_of_classes_have_names():
    assert len(find_classes(["tools"])) == 9
    assert set(find_classes(["tools"])) < set(find_classes(["all"]))
    assert find_classes(["mug", "key"]) == ["mug", "key"]


def test_a_folder_can_grow_but_not_change_its_kind(tmp_path):
    keep(tmp_path, CropRequest(**ONE))
    keep(tmp_path, CropRequest(**{**ONE, "images": 9, "classes": ("mug", "key")}))
    with pytest.raises(DatasetError, match="size is 128, asked for 64"):
        keep(tmp_path, CropRequest(**ONE, size=64))
    with pytest.raises(DatasetError, match="DetectionRequest"):
        keep(tmp_path, DetectionRequest(**ONE))


def test_random_streams_belong_to_their_keys():
    assert stream(1, "mug", 2).random() == stream(1, "mug", 2).random()
    others = {stream(*k).random() for k in ((1, "mug", 3), (2, "mug", 2), (1, "gum", 2))}
    assert stream(1, "mug", 2).random() not in others
    assert len(others) == 3
