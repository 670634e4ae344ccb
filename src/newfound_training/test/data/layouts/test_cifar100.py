# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.errors import DataError
from newfound_training.data import open_images


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
