# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest
from PIL import Image

from newfound_core.errors import DataError
from newfound_training.data.images import ImageFile, ImageSet, Listed, image_files, subfolders


def test_only_images_that_are_not_hidden_are_found(tmp_path, make_image):
    for name in ("b.PNG", "a.jpg", "deep/c.png", ".hidden/d.png", ".e.png"):
        make_image(tmp_path / name, (9, 9, 9), 0)
    (tmp_path / "notes.txt").write_text("no image")
    assert [f.name for f in image_files(tmp_path, tmp_path)] == ["a.jpg", "b.PNG", "deep/c.png"]


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1", "CMYK"])
def test_every_colour_mode_becomes_rgb(tmp_path, mode):
    Image.new(mode, (5, 4)).save(tmp_path / "a.tif")
    pixels = ImageFile(tmp_path / "a.tif", tmp_path).read()
    assert pixels.shape == (4, 5, 3)
    assert pixels.dtype == np.uint8


def test_a_photograph_is_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned by 90 degrees
    Image.new("RGB", (8, 4)).save(tmp_path / "a.jpg", exif=exif)
    assert ImageFile(tmp_path / "a.jpg", tmp_path).read().shape == (8, 4, 3)


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "missing"])
def test_a_damaged_file_is_a_data_error_that_names_it(tmp_path, make_image, damage):
    path = tmp_path / "a.jpg"
    make_image(path, (9, 9, 9), 0, 200)
    content = {"truncated": path.read_bytes()[:800], "empty": b"", "text": b"hello"}
    path.unlink() if damage == "missing" else path.write_bytes(content[damage])
    with pytest.raises(DataError, match=r"a\.jpg cannot be decoded"):
        ImageFile(path, tmp_path).read()


def test_the_fingerprint_changes_with_the_file(tmp_path, make_image):
    path = tmp_path / "a.png"
    make_image(path, (9, 9, 9), 0)
    before = ImageFile(path, tmp_path).fingerprint()
    make_image(path, (9, 9, 9), 1, 50)
    assert ImageFile(path, tmp_path).fingerprint() != before


def test_a_missing_folder_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        subfolders(tmp_path / "nowhere")


class Named:
    def __init__(self, name):
        self.name = name


def listed(*triples):
    return [Listed(Named(name), label, domain) for name, label, domain in triples]


def test_the_order_does_not_depend_on_the_order_of_the_listing(tmp_path):
    items = listed(("b", "cat", "x"), ("a", "cat", "x"), ("c", "ant", "y"), ("d", "ant", "x"))
    one, other = ImageSet.of(tmp_path, items), ImageSet.of(tmp_path, items[::-1])
    assert [s.name for s in one.sources] == [s.name for s in other.sources] == ["d", "a", "b", "c"]
    assert one.class_names == ("ant", "cat")
    np.testing.assert_array_equal(one.labels, [0, 1, 1, 0])
    np.testing.assert_array_equal(one.domains, [0, 0, 0, 1])


def test_a_domain_keeps_the_class_indices_of_the_whole(tmp_path):
    images = ImageSet.of(tmp_path, listed(("a", "ant", "x"), ("b", "bee", "y")))
    np.testing.assert_array_equal(images.in_domain("y").labels, [1])


def test_an_unknown_domain_is_named_beside_the_known_ones(tmp_path):
    images = ImageSet.of(tmp_path, listed(("a", "ant", "x")))
    with pytest.raises(DataError, match="no domain 'z'; it has x"):
        images.in_domain("z")


def test_a_class_missing_in_a_domain_is_named(tmp_path):
    images = ImageSet.of(tmp_path, listed(("a", "ant", "x"), ("b", "bee", "x"), ("c", "ant", "y")))
    images.require_every_class(["x"])
    with pytest.raises(DataError, match=r"'y' .* has no images of bee"):
        images.require_every_class(["x", "y"])


def test_classes_that_differ_only_in_case_are_refused(tmp_path):
    with pytest.raises(DataError, match="'Cat' and 'cat' differ only in case"):
        ImageSet.of(tmp_path, listed(("a", "Cat", "x"), ("b", "cat", "y")))


def test_no_images_at_all_is_an_error(tmp_path):
    with pytest.raises(DataError, match="holds no images"):
        ImageSet.of(tmp_path, [])
