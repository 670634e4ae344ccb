# SPDX-License-Identifier: Apache-2.0
import io

import numpy as np
from PIL import Image, ImageEnhance

from newfound_web.selection import (
    DuplicateFilter,
    consensus_similarity,
    difference_hash,
    inliers,
    robust_z_score,
)


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
    seen = DuplicateFilter()
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
    seen = DuplicateFilter()
    assert all(seen.add(hash_of(image_of(photo(seed)))) for seed in range(50))


def around(direction, count, spread, seed):
    """Vectors that point about the same way."""
    random = np.random.default_rng(seed)
    centre = np.zeros(32)
    centre[direction] = 1.0
    return centre + spread * random.normal(size=(count, 32))


def test_agreement_is_the_cosine_with_the_centre_of_the_half_that_agrees_best():
    angles = np.radians([0, 10, 20, 100, 180, 250])
    unit = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # The best half are the first three, whose centre points to ten degrees.
    assert np.allclose(consensus_similarity(unit), np.cos(angles - np.radians(10)))


def test_standing_counts_robust_standard_deviations():
    values = np.array([1.0, 2.0, 3.0, 4.0, 100.0])
    assert np.allclose(robust_z_score(values), (values - 3.0) / 1.4826)
    assert np.allclose(robust_z_score(np.ones(5)), 0.0)


def test_strangers_among_images_that_agree_are_dropped():
    features = np.concatenate([around(0, 21, 0.1, 1), around(1, 9, 0.1, 2)])
    keep = inliers(features)
    assert keep[:21].mean() > 0.8
    assert not keep[21:].any()


def test_the_crop_helps_to_tell_which_of_two_kinds_is_meant():
    features = np.concatenate([around(0, 11, 0.15, 1), around(1, 9, 0.15, 2)])
    crop = around(0, 1, 0.15, 3)[0]
    alone, with_crop = inliers(features), inliers(features, crop)
    assert with_crop[:11].mean() > 0.8
    assert with_crop[11:].sum() <= alone[11:].sum()
    assert with_crop[11:].mean() < 0.3


def test_among_very_few_images_none_is_dropped():
    assert inliers(np.eye(4)).all()
    assert inliers(np.zeros((0, 8))).shape == (0,)


def test_images_that_are_all_alike_are_kept_and_zeros_do_no_harm():
    assert inliers(np.ones((10, 8))).all()
    assert np.isfinite(robust_z_score(consensus_similarity(np.zeros((6, 8))))).all()
