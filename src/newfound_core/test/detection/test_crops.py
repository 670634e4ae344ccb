# SPDX-License-Identifier: Apache-2.0
import numpy as np

from newfound_core.detection.crops import keep_best, quality_of

SHARP = np.random.default_rng(0).integers(0, 255, (128, 128, 3)).astype(np.uint8)
BLURRED = np.full((128, 128, 3), 90, np.uint8)


def keep(views, count=3, gap=2):
    crops = ()
    for frame, quality in views:
        crops = keep_best(crops, SHARP, quality, frame, count=count, gap=gap)
    return [(crop.frame, crop.quality) for crop in crops]


def test_the_best_views_are_kept_best_first():
    views = [(0, 0.1), (2, 0.5), (4, 0.3), (6, 0.4), (8, 0.2)]
    assert keep(views) == [(2, 0.5), (6, 0.4), (4, 0.3)]


def test_of_views_of_one_moment_only_the_best_is_kept():
    assert keep([(0, 0.1), (1, 0.5), (2, 0.4), (3, 0.45)], gap=3) == [(1, 0.5)]


def test_a_view_is_better_if_it_is_sharp_large_whole_and_surely_an_object():
    best = quality_of(SHARP, 1.0, whole=True)
    assert best > quality_of(BLURRED, 1.0, whole=True)
    assert best > quality_of(SHARP[:40, :40], 1.0, whole=True)
    assert best > quality_of(SHARP, 0.5, whole=True)
    assert best > quality_of(SHARP, 1.0, whole=False)


def test_a_crop_can_be_looked_at_again():
    flat = np.full((40, 40, 3), (200, 100, 50), np.uint8)
    (crop,) = keep_best((), flat, 1.0, 0, count=1, gap=1)
    assert np.abs(crop.pixels().astype(int) - flat).max() <= 3
