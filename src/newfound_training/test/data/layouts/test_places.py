# SPDX-License-Identifier: Apache-2.0

import pytest

from newfound_core.errors import DataError
from newfound_training.data import load_pixels, open_images
from newfound_training.data.layouts.places import category


def test_rooms_are_read_from_places_and_domains_from_folders(tmp_path, make_image):
    sequence = tmp_path / "saarbruecken" / "seq1_cloudy2"
    names = ["t1152.43_x0.0_y0.0_a0.0.jpeg", "t1152.53_x0.1_y0.0_a0.0.jpeg"]
    for name in names:
        make_image(sequence / "std_cam" / name, (9, 9, 9), 0)
    (sequence / "localization").mkdir()
    places = sequence / "localization" / "places.lst"
    places.write_text(f"{names[0]} CR-A\n{names[1]} 2PO1-A\n\n")
    images = open_images(tmp_path, "cold")
    assert images.domain_names == ("saarbruecken_cloudy",)
    assert images.class_names == ("corridor", "two_persons_office")
    assert set(images.groups) == {"saarbruecken/seq1_cloudy2"}
    assert images.sources[0].read().shape == (40, 40, 3)

    places.write_text("oneword\n")
    with pytest.raises(DataError, match="line 1"):
        open_images(tmp_path, "cold")


def test_rooms_have_a_category():
    assert [category(r) for r in ("1PO-A", "TL-B", "PA-A", "LO2", "XX")] == [
        "one_person_office",
        "toilet",
        "printer_area",
        "large_office",
        "xx",
    ]


def test_another_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"places\.lst"):
        open_images(tmp_path, "cold")


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
