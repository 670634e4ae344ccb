# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import DataError
from newfound_training.data import open_images
from newfound_training.data.layouts.cold import category


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
