# SPDX-License-Identifier: Apache-2.0
import io

import numpy as np
from PIL import Image, ImageEnhance

from newfound_web.duplicates import SeenPictures, difference_hash


def image_of(data):
    return Image.open(io.BytesIO(data)).convert("RGB")


def hash_of(image):
    return difference_hash(np.asarray(image))


def test_the_hash_tells_where_it_gets_brighter():
    ramp = np.tile(np.linspace(0, 255, 90, dtype=np.uint8)[None, :, None], (80, 1, 3))
    assert difference_hash(ramp) == 2**64 - 1
    assert difference_hash(ramp[:, ::-1].copy()) == 0


def test_the_same_picture_smaller_saved_again_or_brighter_is_a_duplicate(photo):
    original = image_of(photo(1, (200, 160)))
    seen = SeenPictures()
    assert seen.add(hash_of(original))
    buffer = io.BytesIO()
    original.save(buffer, "JPEG", quality=30)
    variants = [
        original.resize((100, 80)),
        image_of(buffer.getvalue()),
        ImageEnhance.Brightness(original).enhance(0.8),
    ]
    assert [seen.add(hash_of(variant)) for variant in variants] == [False] * 3


def test_different_pictures_are_not_duplicates(photo):
    seen = SeenPictures()
    assert all(seen.add(hash_of(image_of(photo(seed)))) for seed in range(50))
