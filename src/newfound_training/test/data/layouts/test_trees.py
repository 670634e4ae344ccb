# SPDX-License-Identifier: Apache-2.0

import pytest

from newfound_core.errors import ConfigError, DataError
from newfound_training.data import open_images


def test_domains_and_classes_are_the_two_upper_levels(tmp_path, make_image):
    make_image(tmp_path / "day" / "cup" / "a.jpg", (9, 9, 9), 0)
    make_image(tmp_path / "day" / "cup" / "more" / "b.png", (9, 9, 9), 0)
    make_image(tmp_path / "night" / "cup" / "c.png", (9, 9, 9), 0)
    images = open_images(tmp_path)
    assert images.domain_names == ("day", "night")
    assert images.class_names == ("cup",)
    assert [s.name for s in images.sources] == [
        "day/cup/a.jpg",
        "day/cup/more/b.png",
        "night/cup/c.png",
    ]


def test_an_empty_class_folder_is_named(tmp_path, make_image):
    make_image(tmp_path / "day" / "cup" / "a.jpg", (9, 9, 9), 0)
    (tmp_path / "day" / "plate").mkdir()
    with pytest.raises(DataError, match="plate holds no images"):
        open_images(tmp_path)


def test_a_domain_without_classes_is_named(tmp_path):
    (tmp_path / "day").mkdir()
    with pytest.raises(DataError, match="day has no class folders"):
        open_images(tmp_path)


def test_an_empty_or_missing_data_folder_is_named(tmp_path):
    with pytest.raises(DataError, match="has no folders"):
        open_images(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        open_images(tmp_path / "nowhere")


def test_classes_that_differ_only_in_case_are_refused(tmp_path, make_image):
    make_image(tmp_path / "day" / "cup" / "a.jpg", (9, 9, 9), 0)
    make_image(tmp_path / "day" / "Cup" / "a.jpg", (9, 9, 9), 0)
    with pytest.raises(DataError, match="differ only in case"):
        open_images(tmp_path)


def test_an_unknown_layout_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="'zip'; known are tree"):
        open_images(tmp_path, "zip")


def test_the_folder_of_the_archive_is_looked_into(tmp_path, make_image):
    for domain in ("art_painting", "cartoon", "photo", "sketch"):
        make_image(tmp_path / "kfold" / domain / "dog" / "pic_001.jpg", (9, 9, 9), 0)
    (tmp_path / "photo_train_kfold.txt").write_text("photo/dog/pic_001.jpg 1\n")
    images = open_images(tmp_path, "pacs")
    assert images.domain_names == ("art_painting", "cartoon", "photo", "sketch")
    assert images.class_names == ("dog",)


def test_a_tree_without_that_folder_is_taken_as_it_is(tmp_path, make_image):
    make_image(tmp_path / "photo" / "dog" / "pic_001.jpg", (9, 9, 9), 0)
    assert len(open_images(tmp_path, "pacs")) == 1
