# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import DataError
from newfound_training.data import load_pixels, open_images

LABEL = "1/\n6\n1 2 bedroom\n3 3 transition\n4 5 living_room\n-1 -1 end\n2/\n1\n1 1 bathroom\n"


def test_frames_get_the_label_of_their_range(tmp_path, make_image):
    home = tmp_path / "Home1"
    for floor, frame in (("1", 1), ("1", 2), ("1", 3), ("1", 4), ("1", 5), ("2", 1)):
        make_image(home / floor / f"{frame:08d}.jpg", (9, 9, 9), 0)
    (home / "label.txt").write_text(LABEL)
    images = open_images(tmp_path, "vpc")
    found = {
        s.name: images.class_names[c] for s, c in zip(images.sources, images.labels, strict=True)
    }
    assert found == {
        "Home1/1/00000001.jpg": "bedroom",
        "Home1/1/00000002.jpg": "bedroom",
        "Home1/1/00000004.jpg": "living_room",
        "Home1/1/00000005.jpg": "living_room",
        "Home1/2/00000001.jpg": "bathroom",
    }
    assert images.domain_names == ("Home1",)


def test_a_frame_that_is_listed_but_missing_counts_as_corrupt(tmp_path, make_image):
    make_image(tmp_path / "Home1" / "1" / "00000001.jpg", (9, 9, 9), 0)
    (tmp_path / "Home1" / "label.txt").write_text("1/\n1 2 bedroom\n")
    assert load_pixels(open_images(tmp_path, "vpc"), 16).corrupt == ("Home1/1/00000002.jpg",)


def test_a_line_that_makes_no_sense_is_named(tmp_path):
    (tmp_path / "Home1").mkdir()
    (tmp_path / "Home1" / "label.txt").write_text("1/\nbedroom from 1 to 2\n")
    with pytest.raises(DataError, match="line 2"):
        open_images(tmp_path, "vpc")


def test_homes_without_labels_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"label\.txt"):
        open_images(tmp_path, "vpc")
