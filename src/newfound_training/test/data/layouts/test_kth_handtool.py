# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import DataError
from newfound_training.data import open_images


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
