# SPDX-License-Identifier: Apache-2.0
import asyncio

import pytest

from newfound_web.errors import SettingsError
from newfound_web.pictures import PictureLimits
from newfound_web.providers.base import Candidate
from newfound_web.providers.local import ImageNet, Library, LibraryImages, LibraryLabels


@pytest.fixture
def root(tmp_path, photo):
    """Two labels with images, and things that do not belong."""
    files = {
        "Coffee_Mug/b.jpg": photo(2), "Coffee_Mug/a.PNG": photo(1, kind="PNG"),
        "teapot/1.webp": photo(3, kind="WEBP"), "teapot/broken.jpg": photo(4)[:200],
        "teapot/notes.txt": b"hello", ".hidden/x.jpg": photo(5), "loose.jpg": photo(6),
    }  # fmt: skip
    for name, content in files.items():
        path = tmp_path / "library" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "library"


def load(offers):
    async def all_of_them():
        return [await offer.load() for offer in offers]

    return asyncio.run(all_of_them())


def offers(root, label, count=10):
    return asyncio.run(LibraryImages(Library(root)).offers(label, count))


def test_the_folder_of_a_label_is_found_however_it_is_written(root, photo):
    found = offers(root, "coffee mug")
    assert load(found) == [photo(1, kind="PNG"), photo(2)]
    assert found[0].origin.provider == "library"
    assert found[0].origin.source == ""


def test_an_unknown_label_has_no_images(root):
    assert offers(root, "spoon") == []


@pytest.mark.parametrize("label", ["..", "../library/teapot", "/etc", ".hidden", ".", "*"])
def test_a_label_is_never_a_path(root, label):
    assert offers(root, label) == []


def test_a_link_that_leads_out_is_not_followed(root, tmp_path, photo):
    (tmp_path / "secret.jpg").write_bytes(photo(9))
    (root / "teapot" / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.jpg").write_bytes(photo(9))
    (root / "linked").symlink_to(tmp_path / "outside")
    assert len(offers(root, "teapot")) == 2
    assert offers(root, "linked") == []


def test_the_label_of_the_most_similar_image_comes_first(root, features, cache, picture_of):
    provider = LibraryLabels(Library(root), features, cache, PictureLimits())
    assert provider.unreadable == 1
    first, second = asyncio.run(provider.candidates(picture_of(2), 5))
    assert (first.label, second.label) == ("Coffee_Mug", "teapot")
    assert first.confidence == pytest.approx(1.0, abs=0.01)
    assert second.confidence < 0.9


def test_features_are_computed_once_for_a_file(root, features, cache):
    counted = []

    def counting(rgb):
        counted.append(1)
        return features(rgb)

    for _ in range(2):
        LibraryLabels(Library(root), counting, cache, PictureLimits())
    assert len(counted) == 3


def test_a_library_that_is_missing_or_empty_is_told(tmp_path, features, cache):
    with pytest.raises(SettingsError, match="there is no folder"):
        Library(tmp_path / "nowhere")
    with pytest.raises(SettingsError, match="holds no image"):
        LibraryLabels(Library(tmp_path), features, cache, PictureLimits())


def test_the_most_probable_names_are_proposed(picture_of):
    def namer(rgb, count):
        assert rgb.shape == (80, 96, 3)
        return [("teapot", 0.7), ("vase", 0.2), ("mug", 0.1)][:count]

    found = asyncio.run(ImageNet(namer).candidates(picture_of(1), 2))
    assert found == [Candidate("teapot", 0.7, "imagenet"), Candidate("vase", 0.2, "imagenet")]
