# SPDX-License-Identifier: Apache-2.0
import json

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


def test_a_folder_without_annotations_is_refused(tmp_path):
    with pytest.raises(DataError, match="newfound_sim generate detection"):
        read_pictures(tmp_path)
