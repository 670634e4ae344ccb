# SPDX-License-Identifier: Apache-2.0
import json
import multiprocessing
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from newfound_core.errors import DataError
from newfound_training.data import load_pixels, open_images
from newfound_training.data.pixels import cache_root


def broken_tree(root, make_image):
    for domain in "xy":
        for i in range(3):
            make_image(root / domain / "ant" / f"{i}.png", (9, 9, 9), i)
    (root / "x" / "ant" / "1.png").write_bytes(b"broken")
    return root


def test_pixels_are_those_of_the_decoded_images(tree):
    images = open_images(tree)
    pixels = load_pixels(images, 40)
    assert len(pixels) == 48
    for index in (0, 17, 47):
        np.testing.assert_array_equal(pixels[index], images.sources[index].read())


def test_a_second_call_decodes_nothing(tree, monkeypatch):
    images = open_images(tree)
    first = load_pixels(images, 24)
    monkeypatch.setattr("newfound_training.data.images.ImageFile.read", None)
    second = load_pixels(images, 24)
    assert isinstance(second.array, np.memmap)
    np.testing.assert_array_equal(first.array, second.array)


def test_nothing_is_written_into_the_data_folder(tree):
    before = sorted(tree.rglob("*"))
    load_pixels(open_images(tree), 24)
    assert sorted(tree.rglob("*")) == before
    assert len(list(cache_root().iterdir())) == 1


def test_a_changed_image_is_decoded_again(tmp_path, make_image):
    path = tmp_path / "x" / "ant" / "a.png"
    make_image(path, (9, 9, 9), 0)
    before = load_pixels(open_images(tmp_path), 16)[0].copy()
    make_image(path, (250, 250, 250), 1, 44)
    assert not np.array_equal(before, load_pixels(open_images(tmp_path), 16)[0])


def test_corrupt_images_are_listed_and_left_out(tmp_path, make_image, caplog):
    images = open_images(broken_tree(tmp_path, make_image))
    for _ in range(2):  # decoded, then from the cache
        pixels = load_pixels(images, 16)
        assert pixels.corrupt == ("x/ant/1.png",)
        assert [s.name for s in pixels.images.sources][:2] == ["x/ant/0.png", "x/ant/2.png"]
        assert "x/ant/1.png" in caplog.text
    np.testing.assert_array_equal(pixels[1], pixels.resize.resized(images.sources[2].read()))


def test_corrupt_images_are_fatal_when_strict(tmp_path, make_image):
    images = open_images(broken_tree(tmp_path, make_image))
    with pytest.raises(DataError, match=r"1 of 6 images .* x/ant/1\.png"):
        load_pixels(images, 16, strict=True)


def test_only_corrupt_images_are_an_error(tmp_path):
    path = tmp_path / "x" / "ant" / "a.png"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"broken")
    with pytest.raises(DataError, match="none of the 1 images"):
        load_pixels(open_images(tmp_path), 16)


def test_what_does_not_fit_is_decoded_when_needed(tmp_path, make_image):
    images = open_images(broken_tree(tmp_path, make_image))
    fits = load_pixels(images, 16)
    large = load_pixels(images, 16, limit_gb=0)
    assert large.array is None
    assert large.corrupt == fits.corrupt
    for index in range(len(fits)):
        np.testing.assert_array_equal(large[index], fits[index])


def test_a_half_written_cache_is_not_used(tree):
    images = open_images(tree)
    load_pixels(images, 24)
    (folder,) = cache_root().iterdir()
    folder.rename(folder.with_name(f".{folder.name}.writing-killed"))
    assert len(load_pixels(images, 24)) == 48


def fill(tree, queue):
    queue.put(int(load_pixels(open_images(tree), 20).array.sum()))


def test_two_processes_may_decode_at_once(tree):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=fill, args=(tree, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    sums = {queue.get(timeout=60) for _ in workers}
    for worker in workers:
        worker.join()
    assert sums == {int(load_pixels(open_images(tree), 20).array.sum())}
    assert len([p for p in cache_root().iterdir() if not p.name.startswith(".")]) == 1


def test_selected_pixels_belong_to_the_selected_images(tree):
    pixels = load_pixels(open_images(tree), 24)
    dark = pixels.in_domain("dark")
    assert len(dark) == 24
    np.testing.assert_array_equal(dark[3], pixels[24 + 3])
    np.testing.assert_array_equal(replace(dark, array=None)[3], dark[3])


def test_a_selection_of_a_selection_copies_no_pixels(tree):
    pixels = load_pixels(open_images(tree), 24)
    some = pixels.in_domain("dark").select([5, 3])
    assert some.array is pixels.array
    assert len(some) == 2
    np.testing.assert_array_equal(some[1], pixels[24 + 3])


def test_the_report_is_plain_json(tree):
    load_pixels(open_images(tree), 24)
    (folder,) = cache_root().iterdir()
    assert json.loads((folder / "report.json").read_text()) == {"corrupt": []}


def test_the_middle_of_an_image_is_kept_apart_from_the_whole(tmp_path):
    wide = np.zeros((20, 40, 3), np.uint8)
    wide[:, 10:30] = 200
    folder = tmp_path / "data" / "here" / "cup"
    folder.mkdir(parents=True)
    Image.fromarray(wide).save(folder / "0.png")
    images = open_images(tmp_path / "data")
    assert load_pixels(images, 20)[0].min() == 0
    assert load_pixels(images, 20, resize="short_side_center_crop")[0].min() == 200
