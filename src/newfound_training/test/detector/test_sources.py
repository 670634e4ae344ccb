# SPDX-License-Identifier: Apache-2.0
import cv2
import numpy as np
import pytest

from newfound_core.errors import ConfigError, DataError
from newfound_training.detector.sources import (
    for_training,
    read_source,
    read_sources,
    reported,
)


@pytest.fixture
def osd(tmp_path):
    """Four scenes; the first object of scene 0 has two parts."""
    for folder in ("rgb", "label"):
        (tmp_path / "osd" / folder).mkdir(parents=True)
    for scene in (0, 2, 10, 1):
        label = np.zeros((30, 40), np.uint8)
        label[20:] = 1
        label[5:10, 3:8], label[10:15, 3:6] = 20, 21
        label[4:9, 20:30] = 31
        cv2.imwrite(str(tmp_path / "osd" / "label" / f"learn{scene}.png"), label)
        rgb = np.full((30, 40, 3), scene, np.uint8)
        cv2.imwrite(str(tmp_path / "osd" / "rgb" / f"learn{scene}.jpg"), rgb)
    return tmp_path / "osd"


def test_the_parts_of_an_object_are_one_box_and_one_mask(osd):
    pictures = read_source(osd)
    assert [p.path.stem for p in pictures] == ["learn0", "learn1", "learn2", "learn10"]
    assert pictures[0].boxes.tolist() == [[3, 5, 8, 15], [20, 4, 30, 9]]
    mask = pictures[0].mask(0, (30, 40))
    expected = np.zeros((30, 40), bool)
    expected[5:10, 3:8] = expected[10:15, 3:6] = True
    assert np.array_equal(mask, expected)


def test_every_so_many_pictures_are_left_for_reporting(osd, boxes_data):
    pictures = read_source(osd)
    assert [p.path.stem for p in reported(pictures, 2)] == ["learn1", "learn10"]
    assert [p.path.stem for p in for_training(pictures, 2)] == ["learn0", "learn2"]
    assert (len(reported(pictures, 0)), len(for_training(pictures, 0))) == (0, 4)
    assert [p.path.stem for p in reported(pictures, 3)] == ["learn1"]
    found = read_sources(osd.parent, ["osd", str(boxes_data)], [2, 0])
    assert [len(of) for of in found.values()] == [2, 24]


def test_numbers_that_do_not_fit_the_sources_are_refused(osd):
    for numbers in ([2, 2], [1], [-1]):
        with pytest.raises(ConfigError, match="report-every"):
            read_sources(osd.parent, ["osd"], numbers)


def test_a_scene_without_labels_is_named(osd):
    (osd / "label" / "learn2.png").unlink()
    with pytest.raises(DataError, match=r"learn2\.png is no image"):
        read_source(osd)
    for file in (osd / "rgb").iterdir():
        file.unlink()
    with pytest.raises(DataError, match=r"holds no \.jpg"):
        read_source(osd)
