# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import DataError
from newfound_training.data import open_images


def test_colour_crops_are_taken_and_depth_and_masks_are_not(tmp_path, make_image):
    folder = tmp_path / "rgbd-dataset" / "food_bag" / "food_bag_3"
    for kind in ("crop", "depthcrop", "maskcrop"):
        make_image(folder / f"food_bag_3_1_17_{kind}.png", (9, 9, 9), 0)
    (folder / "food_bag_3_1_17_loc.txt").write_text("10,20")
    images = open_images(tmp_path, "rgbd_object")
    assert images.class_names == ("food_bag",)
    assert images.groups == ("food_bag_3",)
    assert [s.path.name for s in images.sources] == ["food_bag_3_1_17_crop.png"]


def test_another_folder_is_refused(tmp_path, make_image):
    make_image(tmp_path / "apple" / "pear_1" / "pear_1_1_1_crop.png", (9, 9, 9), 0)
    with pytest.raises(DataError, match="not an instance of apple"):
        open_images(tmp_path, "rgbd_object")
    with pytest.raises(DataError, match=r"no \*_crop\.png"):
        open_images(tmp_path / "apple" / "pear_1", "rgbd_object")
