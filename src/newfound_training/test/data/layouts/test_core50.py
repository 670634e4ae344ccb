# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import DataError
from newfound_training.data import open_images
from newfound_training.data.layouts.core50 import category


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


def test_another_folder_is_refused(tmp_path):
    (tmp_path / "s1" / "o51").mkdir(parents=True)
    with pytest.raises(DataError, match="not an object o1 to o50"):
        open_images(tmp_path, "core50")
    with pytest.raises(DataError, match="no sessions"):
        open_images(tmp_path / "s1", "core50")
