# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.detection.crops import (
    crop_features,
    crops_of,
    keep_best,
    merge_crops,
    pooled_features,
    quality_of,
)
from newfound_core.models import load_model, save_model
from newfound_core.preprocessing import Preprocessing

SHARP = np.random.default_rng(0).integers(0, 255, (128, 128, 3)).astype(np.uint8)
BLURRED = np.full((128, 128, 3), 90, np.uint8)


def keep(views, count=3, gap=2):
    crops = ()
    for frame, quality in views:
        view = np.roll(SHARP, frame, 0)
        crops = keep_best(crops, view, quality, frame, count=count, gap=gap)
    return [(crop.frame, crop.quality) for crop in crops]


def test_the_best_views_are_kept_best_first():
    views = [(0, 0.1), (2, 0.5), (4, 0.3), (6, 0.4), (8, 0.2)]
    assert keep(views) == [(2, 0.5), (6, 0.4), (4, 0.3)]


def test_of_views_of_one_moment_only_the_best_is_kept():
    assert keep([(0, 0.1), (1, 0.5), (2, 0.4), (3, 0.45)], gap=3) == [(1, 0.5)]


def test_an_image_that_is_seen_again_is_not_kept_twice():
    once = keep_best((), SHARP, 0.5, 0, count=3, gap=2)
    assert keep_best(once, SHARP, 0.5, 100, count=3, gap=2) == once
    later = keep_best((), SHARP, 0.5, 100, count=3, gap=2)
    other = keep_best(once, BLURRED, 0.4, 10, count=3, gap=2)
    assert merge_crops(other, later, count=3, gap=2) == other


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


RGB = np.random.default_rng(0).integers(0, 255, (60, 96, 3)).astype(np.uint8)
BOXES = np.array([[10, 10, 30, 20], [50, 5, 90, 55]], np.float32)


@pytest.fixture
def loaded(tmp_path):
    torch.manual_seed(0)
    backbone = build_backbone("cifar_resnet20", width=0.25)
    return load_model(
        save_model(tmp_path / "model", Classifier(backbone, 1), ["a"], Preprocessing(16))
    )


def test_crops_are_square_views_around_their_boxes():
    first, second = crops_of(RGB, BOXES, margin=0.2)
    assert first.shape == (24, 24, 3)
    assert second.shape == (60, 60, 3)
    assert np.shares_memory(first, RGB)
    assert np.array_equal(first, RGB[3:27, 8:32])


def test_features_are_those_of_the_crops_one_by_one(loaded):
    crops = crops_of(RGB, np.repeat(BOXES, 3, 0), 0.1)
    together = crop_features(loaded, crops, batch_size=4)
    alone = torch.cat([crop_features(loaded, [crop]) for crop in crops])
    torch.testing.assert_close(together, alone)


def test_no_crops_have_no_features(loaded):
    assert crop_features(loaded, []).shape == (0, loaded.model.backbone.feature_dim)


def test_the_whole_image_pooled_is_the_feature_of_the_image(loaded):
    whole = np.array([[0, 0, 96, 60]], np.float32)
    pooled = pooled_features(loaded, RGB, whole, size=112)
    squeezed = Preprocessing(112)(RGB)[None]
    # 28 x 28 cells pooled to 7 x 7 and then to one: the mean of all, up to the sampling points.
    torch.testing.assert_close(pooled, loaded.model.backbone(squeezed), atol=0.05, rtol=0.1)
