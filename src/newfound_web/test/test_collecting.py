# SPDX-License-Identifier: Apache-2.0
"""Good images are stored, bad ones are not, and the time is kept."""

import asyncio
import json

import numpy as np
import pytest

from newfound_web.collecting import Collector, CollectSettings
from newfound_web.errors import Outcome, ProviderError, RefusedError, TransientError
from newfound_web.image_folder import INDEX, ImageFolder, Origin
from newfound_web.pictures import PictureLimits
from newfound_web.providers.base import Offer


class Offers:
    """A provider with these images: bytes, an error to raise, or None for one that never comes."""

    def __init__(self, name, *images, fails=""):
        self.name, self.images, self.fails = name, images, fails
        self.asked_for = []
        self.loaded = []

    async def offers(self, label, count):
        self.asked_for.append(count)
        if self.fails:
            raise ProviderError(self.fails)
        return [self._offer(number, image) for number, image in enumerate(self.images[:count])]

    def _offer(self, number, image):
        async def load():
            self.loaded.append(number)
            if image is None:
                await asyncio.sleep(3600)
            if isinstance(image, Exception):
                raise image
            return image

        source = f"https://{self.name}.example/{number}"
        return Offer(Origin(self.name, source, licence="CC0"), load)


@pytest.fixture
def collect(tmp_path, cache):
    def run(*providers, label="mug", count=3, seconds=60.0, crop=b"", features=None, **changes):
        folder = ImageFolder(tmp_path / "images", 10_000_000, changes.pop("min_free", 0))
        settings = CollectSettings(PictureLimits(max_pixels=1_000_000), **changes)
        collector = Collector(providers, folder, cache, features, settings)
        return asyncio.run(collector.collect(label, count, seconds, crop))

    return run


def stored(tmp_path, answer):
    """The images of the answer's collection as its index lists them, all of them there."""
    place = tmp_path / "images" / answer.collection.name
    images = json.loads((place / INDEX).read_text())["images"]
    assert {f.name for f in place.iterdir()} == {INDEX, *(image["file"] for image in images)}
    return images


def test_images_are_stored_in_the_order_of_their_rank_up_to_the_number(collect, tmp_path, photo):
    answer = collect(Offers("a", *map(photo, range(10))), count=3)
    assert answer.outcome is Outcome.OK
    sources = [image["origin"]["source"] for image in stored(tmp_path, answer)]
    assert len(sources) == 3
    assert sources == sorted(sources)


def test_the_next_provider_fills_up_what_is_missing(collect, tmp_path, photo):
    first, second = Offers("a", photo(1)), Offers("b", *map(photo, range(2, 9)))
    answer = collect(Offers("x", fails="down"), first, second, count=4)
    origins = [image["origin"]["provider"] for image in stored(tmp_path, answer)]
    assert origins == ["a", "b", "b", "b"]
    assert "x: down" in answer.message
    assert first.asked_for == [13]  # for half as many again as asked for, and some more
    assert second.asked_for == [11]


def test_bad_images_are_counted_and_not_stored(collect, tmp_path, photo):
    bad = [b"<html>", photo(2)[:300], RefusedError("private"), photo(1), TransientError("gone")]
    answer = collect(Offers("a", photo(1), *bad), count=6)
    assert len(stored(tmp_path, answer)) == 1
    assert answer.rejected == 4
    assert answer.message == "1 stored; 3 broken or unsafe, 1 duplicates, 1 unreachable"


def test_when_nothing_usable_comes_nothing_is_made(collect, tmp_path):
    answer = collect(Offers("a", b"no", b"image"))
    assert answer.outcome is Outcome.NOTHING_FOUND
    assert answer.collection is None
    assert list((tmp_path / "images").iterdir()) == []


def test_when_all_providers_fail_each_reason_is_told(collect):
    answer = collect(Offers("a", fails="down"), Offers("b", fails="no key"))
    assert answer.outcome is Outcome.PROVIDERS_FAILED
    assert "a: down; b: no key" in answer.message


def test_when_time_is_up_what_has_come_is_stored(collect, tmp_path, photo):
    images = [photo(1), photo(2), *[None] * 8]
    answer = collect(Offers("a", *images), count=8, seconds=2.0)
    assert answer.outcome is Outcome.TIMEOUT
    assert len(stored(tmp_path, answer)) == 2


@pytest.mark.parametrize("label", ["", " ", "x" * 101, "a\x00b"])
def test_a_label_that_is_none_is_refused(collect, label):
    provider = Offers("a")
    assert collect(provider, label=label).outcome is Outcome.INVALID_LABEL
    assert provider.asked_for == []


def test_a_full_disk_is_told_before_anything_is_fetched(collect, photo):
    provider = Offers("a", photo(1))
    assert collect(provider, min_free=2**62).outcome is Outcome.STORAGE
    assert provider.loaded == []


def test_what_was_fetched_before_comes_from_the_cache_but_bad_images_do_not(collect, photo):
    provider = Offers("a", photo(1), b"bad")
    for _ in range(2):
        assert collect(provider).outcome is Outcome.OK
    assert sorted(provider.loaded) == [0, 1, 1]


def tinted(photo, colour, count, first=0):
    """Different photos with one colour over all of them."""
    import io

    from PIL import Image

    for seed in range(first, first + count):
        image = Image.open(io.BytesIO(photo(seed)))
        buffer = io.BytesIO()
        Image.blend(image, Image.new("RGB", image.size, colour), 0.6).save(buffer, "JPEG")
        yield buffer.getvalue()


def test_strangers_are_dropped_by_their_features(collect, tmp_path, photo, features):
    red, blue = tinted(photo, (255, 0, 0), 14), tinted(photo, (0, 0, 255), 4, first=50)
    right, wrong = list(red), list(blue)
    provider = Offers("a", *right[:5], *wrong, *right[5:])
    answer = collect(provider, count=12, features=features)
    places = {int(i["origin"]["source"].rpartition("/")[2]) for i in stored(tmp_path, answer)}
    assert not places & {5, 6, 7, 8}
    assert len(places) >= 10
    assert answer.dropped["outliers"] >= 4


def test_a_crop_that_is_no_image_is_told_and_not_used(collect, photo, features):
    answer = collect(Offers("a", photo(1)), crop=b"nonsense", features=features)
    assert answer.outcome is Outcome.OK
    assert "the crop was not used" in answer.message


def test_images_are_compared_with_the_crop(collect, photo, features):
    seen = []

    def recording(rgb):
        seen.append(np.asarray(rgb).shape)
        return features(rgb)

    collect(Offers("a", photo(1)), crop=photo(7, (40, 40)), features=recording)
    assert seen == [(40, 40, 3), (80, 96, 3)]
