# SPDX-License-Identifier: Apache-2.0

import cv2
import numpy as np
import pytest
from PIL import Image

from newfound_core.errors import DataError
from newfound_training.segmentation.data import CAMVID, NYU, VOC, open_labelled

from .conftest import scene, write


def test_blocks_of_neighbours_are_tested_on(labelled):
    data = open_labelled(labelled, "tree", block=3, every=4)
    assert [f.image.stem for f in data.test] == ["000", "001", "002", "012", "013", "014"]
    assert len(data.training) == 18
    table = data.table(["background", "blue"])
    assert table[[0, 1, 2, 3, 4, 255]].tolist() == [0, 0, 0, 1, 255, 255]
    assert data.read(data.test[0]).labels.shape == (48, 64)


def test_folders_of_a_split_are_kept(tmp_path):
    write(tmp_path / "train", {"a": scene(0), "b": scene(1)})
    write(tmp_path / "val", {"c": scene(2)})
    data = open_labelled(tmp_path, "camvid", 10, 5)
    assert data.names == CAMVID
    assert (len(data.training), len(data.test)) == (2, 1)
    (tmp_path / "train" / "classes.json").write_text('{"classes": ["a", "b", "c", "d", "e"]}')
    assert open_labelled(tmp_path, "tree", 10, 5).names == ("a", "b", "c", "d", "e")


def test_the_layout_of_voc_is_read_with_its_palette(tmp_path):
    for name in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (tmp_path / name).mkdir(parents=True)
    for split, stem in (("train", "one"), ("val", "two")):
        (tmp_path / "ImageSets" / "Segmentation" / f"{split}.txt").write_text(f"{stem}\n")
        cv2.imwrite(str(tmp_path / "JPEGImages" / f"{stem}.jpg"), np.zeros((4, 4, 3), np.uint8))
        image = Image.fromarray(np.full((4, 4), 15, np.uint8)).convert("P")
        image.putpalette([1, 2, 3] * 256)
        image.putdata([0] * 8 + [15] * 7 + [255])
        image.save(tmp_path / "SegmentationClass" / f"{stem}.png")
    data = open_labelled(tmp_path, "voc", 10, 5)
    labels = data.read(data.training[0]).labels
    assert np.unique(labels).tolist() == [0, 15, 255]
    assert VOC[15] == "person"
    assert data.table(["background", "person"])[labels].max() == 255


def test_the_names_of_nyu_are_forty():
    assert len(NYU) == 40
    assert (NYU[0], NYU[5], NYU[37]) == ("wall", "sofa", "other structure")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "classes.json").unlink(), "names in the order"),
        (lambda f: (f / "labels" / "003.png").unlink(), r"003\.png is missing"),
        (lambda f: (f / "images").rename(f / "other"), "has none of .jpg, .jpeg, .png"),
        (lambda f: (f / "classes.json").write_text('{"classes": []}'), "different names"),
        (lambda f: (f / "classes.json").write_text('{"classes": ["a", "a"]}'), "different names"),
        (lambda f: f.rename(f.with_name("moved")), "is not a folder"),
    ],
)
def test_what_is_missing_is_named(labelled, spoil, message):
    spoil(labelled)
    with pytest.raises(DataError, match=message):
        open_labelled(labelled, "tree", 3, 4)


def test_images_of_a_camera_with_capital_suffixes_count(labelled):
    path = labelled / "images" / "005.jpg"
    path.rename(path.with_suffix(".JPG"))
    assert len(open_labelled(labelled, "tree", 3, 4).training) == 18


def test_a_list_of_voc_without_a_picture_is_named(tmp_path):
    lists = tmp_path / "ImageSets" / "Segmentation"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("")
    with pytest.raises(DataError, match=r"train\.txt names no picture"):
        open_labelled(tmp_path, "voc", 10, 5)


def test_a_damaged_image_and_labels_of_another_size_are_named(labelled):
    (labelled / "images" / "000.jpg").write_bytes(b"no")
    cv2.imwrite(str(labelled / "labels" / "001.png"), np.zeros((9, 9), np.uint8))
    data = open_labelled(labelled, "tree", 3, 4)
    with pytest.raises(DataError, match=r"000\.jpg cannot be read"):
        data.read(data.test[0])
    with pytest.raises(DataError, match="has 9x9 pixels, its image 64x48"):
        data.read(data.test[1])
