# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest

from newfound_core.errors import DataError
from newfound_training.data import open_images
from newfound_training.data.layouts.objects import category


def write_binary(root, labels=(1, 0)):
    folder = root / "cifar-100-binary"
    folder.mkdir(parents=True)
    (folder / "fine_label_names.txt").write_text("apple\nbear\n")
    content = b""
    for label in labels:
        red, green, blue = (bytes([10 * label + c]) * 1024 for c in (1, 2, 3))
        content += bytes([7, label]) + red + green + blue
    (folder / "train.bin").write_bytes(content)
    return folder


def test_records_become_images_of_their_fine_label(tmp_path):
    write_binary(tmp_path)
    images = open_images(tmp_path, "cifar100")
    assert images.class_names == ("apple", "bear")
    assert images.domain_names == ("train",)
    bear = images.sources[list(images.labels).index(1)].read()
    assert bear.shape == (32, 32, 3)
    assert bear[5, 6].tolist() == [11, 12, 13]


def test_the_pickled_version_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "cifar-100-python").mkdir()
    (tmp_path / "cifar-100-python" / "train").write_bytes(b"\x80\x02.")
    with pytest.raises(DataError, match=r"pickle, which is never opened.*cifar-100-binary"):
        open_images(tmp_path, "cifar100")


def test_a_file_that_was_cut_off_is_refused(tmp_path):
    folder = write_binary(tmp_path)
    content = (folder / "train.bin").read_bytes()
    (folder / "train.bin").write_bytes(content[:-1])
    with pytest.raises(DataError, match="cut off"):
        open_images(tmp_path, "cifar100")


def test_labels_without_a_name_are_refused(tmp_path):
    write_binary(tmp_path, labels=(5,))
    with pytest.raises(DataError, match="label 5"):
        open_images(tmp_path, "cifar100")


def test_reading_is_independent_of_the_order(tmp_path):
    write_binary(tmp_path)
    sources = open_images(tmp_path, "cifar100").sources
    np.testing.assert_array_equal(sources[1].read(), sources[1].read())
    assert not np.array_equal(sources[0].read(), sources[1].read())


@pytest.fixture
def core50(tmp_path, make_image):
    for session in (1, 11):
        for thing in (2, 4, 10):
            name = f"C_{session:02d}_{thing:02d}_000.png"
            folder = tmp_path / "core50_128x128" / f"s{session}" / f"o{thing}"
            make_image(folder / name, (9, 9, 9), 0)
    return tmp_path


def test_sessions_are_domains_and_objects_classes(core50):
    images = open_images(core50, "core50")
    assert images.domain_names == ("s01", "s11")
    assert images.class_names == ("o02", "o04", "o10")
    assert images.groups[0] == "s01/o02"


def test_by_category_all_videos_of_an_object_stay_together(core50):
    images = open_images(core50, "core50_categories")
    assert images.domain_names == ("s01", "s11")
    assert images.class_names == ("mobile_phone", "plug_adapter")
    assert images.groups == ("o10", "o02", "o04") * 2


def test_objects_have_a_category():
    assert [category(o) for o in ("o01", "o05", "o06", "o50")] == [
        "plug_adapter",
        "plug_adapter",
        "mobile_phone",
        "remote_control",
    ]


def test_a_folder_without_sessions_is_refused(tmp_path):
    (tmp_path / "s1" / "o51").mkdir(parents=True)
    with pytest.raises(DataError, match="not an object o1 to o50"):
        open_images(tmp_path, "core50")
    with pytest.raises(DataError, match="no sessions"):
        open_images(tmp_path / "s1", "core50")


@pytest.mark.parametrize(
    "folder", ["artificial/kinect/white/hammer1", "Artificial_Kinect_White/Hammer_1"]
)
def test_conditions_are_recognised_by_name(tmp_path, make_image, folder):
    make_image(tmp_path / folder / "0001.jpg", (9, 9, 9), 0)
    images = open_images(tmp_path, "kth_handtool")
    assert images.domain_names == ("artificial-kinect-white",)
    assert images.class_names == ("hammer1",)


def test_a_missing_condition_is_named(tmp_path, make_image):
    make_image(tmp_path / "artificial" / "kinect" / "hammer1" / "0001.jpg", (9, 9, 9), 0)
    with pytest.raises(DataError, match="0 conditions of background"):
        open_images(tmp_path, "kth_handtool")


def test_a_missing_tool_is_named(tmp_path, make_image):
    make_image(tmp_path / "cloudy" / "webcam" / "brown" / "saw1" / "0001.jpg", (9, 9, 9), 0)
    with pytest.raises(DataError, match="no tool such as hammer1"):
        open_images(tmp_path, "kth_handtool")


def test_colour_crops_are_taken_and_depth_and_masks_are_not(tmp_path, make_image):
    folder = tmp_path / "rgbd-dataset" / "food_bag" / "food_bag_3"
    for kind in ("crop", "depthcrop", "maskcrop"):
        make_image(folder / f"food_bag_3_1_17_{kind}.png", (9, 9, 9), 0)
    (folder / "food_bag_3_1_17_loc.txt").write_text("10,20")
    images = open_images(tmp_path, "rgbd_object")
    assert images.class_names == ("food_bag",)
    assert images.groups == ("food_bag_3",)
    assert [s.path.name for s in images.sources] == ["food_bag_3_1_17_crop.png"]


def test_a_folder_without_instances_is_refused(tmp_path, make_image):
    make_image(tmp_path / "apple" / "pear_1" / "pear_1_1_1_crop.png", (9, 9, 9), 0)
    with pytest.raises(DataError, match="not an instance of apple"):
        open_images(tmp_path, "rgbd_object")
    with pytest.raises(DataError, match=r"no \*_crop\.png"):
        open_images(tmp_path / "apple" / "pear_1", "rgbd_object")
