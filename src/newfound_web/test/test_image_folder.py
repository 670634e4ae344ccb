# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import resource

import pytest

from newfound_core.errors import StorageError
from newfound_web.image_folder import INDEX, ImageFolder, Origin
from newfound_web.pictures import PictureLimits, open_picture

ORIGIN = Origin("openverse", "https://a.example/1.jpg", "https://a.example", "CC BY 4.0", "Ann")


@pytest.fixture
def pictures(photo):
    return [(open_picture(photo(seed), PictureLimits()), ORIGIN) for seed in range(3)]


@pytest.fixture
def folder(tmp_path):
    return ImageFolder(tmp_path / "images", max_bytes=1_000_000, min_free_bytes=0)


def test_images_are_stored_with_their_origin_under_names_made_here(folder, pictures):
    collection = folder.store("tea pot", pictures)
    place = folder.root / collection.name
    index = json.loads((place / INDEX).read_text())
    assert index["label"] == "tea pot"
    assert {f.name for f in place.iterdir()} == {INDEX, *(i.file for i in collection.images)}
    for image, entry in zip(collection.images, index["images"], strict=True):
        content = (place / image.file).read_bytes()
        assert image.sha256 == hashlib.sha256(content).hexdigest() == entry["sha256"]
        assert image.file == f"{image.sha256}.jpg"
        assert (image.width, image.height) == (96, 80)
        assert entry["origin"]["licence"] == "CC BY 4.0"
        assert entry["origin"]["source"] == "https://a.example/1.jpg"


def test_each_fetch_has_a_folder_of_its_own(folder, pictures):
    names = [folder.store(label, pictures).name for label in ("mug", "mug", "../../mug")]
    assert len(set(names)) == 3
    assert {p.name for p in folder.root.iterdir()} == set(names)
    assert [p.name for p in folder.root.parent.iterdir()] == ["images"]


def test_when_the_disk_refuses_nothing_is_left_behind(folder, pictures):
    folder.check()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # the kernel's own refusal
    try:
        with pytest.raises(StorageError, match="cannot be stored"):
            folder.store("mug", pictures)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(folder.root.iterdir()) == []


def test_a_nearly_full_disk_and_a_full_folder_are_told(tmp_path, pictures):
    with pytest.raises(StorageError, match="are to stay free"):
        ImageFolder(tmp_path, 1_000_000, min_free_bytes=2**62).check()
    small = ImageFolder(tmp_path / "small", max_bytes=1000, min_free_bytes=0)
    small.store("mug", pictures)
    with pytest.raises(StorageError, match="remove collections"):
        small.store("mug", pictures)


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be used"):
        ImageFolder(tmp_path / "file", 1000, 0).check()
