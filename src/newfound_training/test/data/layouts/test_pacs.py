# SPDX-License-Identifier: Apache-2.0
from newfound_training.data import open_images


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
