# SPDX-License-Identifier: Apache-2.0
import json
import shutil
from pathlib import Path

import pytest

from newfound_core.errors import DataError
from newfound_training.detector.coco import read_pictures, without_classes


def test_pictures_of_all_domains_are_read_with_their_boxes(boxes_data):
    pictures = read_pictures(boxes_data)
    assert len(pictures) == 24
    document = json.loads((boxes_data / "bright" / "annotations.json").read_text())
    left, top, width, height = document["annotations"][0]["bbox"]
    assert pictures[0].boxes.tolist() == [[left, top, left + width, top + height]]
    assert pictures[0].labels == ("mug",)
    assert len(read_pictures(boxes_data / "bright")) == 12


def test_pictures_of_a_class_can_be_left_out(boxes_data):
    kept = without_classes(read_pictures(boxes_data), ["mug"])
    assert len(kept) == 16
    assert all(picture.labels == ("cup",) for picture in kept)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not an annotation file"),
        ("[]", "not an annotation file"),
        ('{"images": [], "annotations": []}', "categories"),
        ('{"images": [{"id": 1, "file_name": "../x"}], "annotations": [], "categories": []}',
         "outside"),
        ('{"images": [{"id": 1, "file_name": "x.jpg"}], "annotations": [], "categories": []}',
         "not there"),
    ],
)  # fmt: skip
def test_what_is_not_coco_is_refused_with_the_reason(tmp_path, content, reason):
    (tmp_path / "annotations.json").write_text(content)
    with pytest.raises(DataError, match=reason):
        read_pictures(tmp_path)


def test_the_layout_of_coco_itself_is_read(boxes_data, tmp_path):
    data = tmp_path / "coco"
    shutil.copytree(boxes_data / "bright" / "images", data / "val2017")
    document = json.loads((boxes_data / "bright" / "annotations.json").read_text())
    for image in document["images"]:
        image["file_name"] = Path(image["file_name"]).name
    (data / "annotations").mkdir()
    file = data / "annotations" / "instances_val2017.json"
    file.write_text(json.dumps(document))
    with pytest.raises(DataError, match="--annotations"):
        read_pictures(data)
    with pytest.raises(DataError, match=r"0000\.png', which is not there"):
        read_pictures(data, "annotations/instances_val2017.json")
    pictures = read_pictures(data, "annotations/instances_val2017.json", "val2017")
    assert [p.path.parent for p in pictures] == [data / "val2017"] * 12
    assert pictures[0].labels == ("mug",)
    elsewhere = read_pictures(tmp_path, str(file), str(data / "val2017"))
    assert [p.path for p in elsewhere] == [p.path for p in pictures]


def test_a_folder_without_annotations_is_refused(tmp_path):
    with pytest.raises(DataError, match="newfound_sim generate detection"):
        read_pictures(tmp_path)
