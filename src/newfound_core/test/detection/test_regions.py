# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.detection.regions import crop_features, crops_of, pooled_features
from newfound_core.models import load_model, save_model
from newfound_core.preprocessing import Preprocessing

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
