# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from PIL import Image

from newfound_core.errors import DataError
from newfound_training.data.files import ImageFile, image_files, subfolders


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
