# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.frozen_features import (
    JITTERED,
    PLAIN,
    FrozenStages,
    cached_features,
)
from newfound_core.preprocessing import Preprocessing


@pytest.fixture
def frozen():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4))
    return FrozenStages(network, Preprocessing(16), torch.device("cpu"))


@pytest.fixture
def images():
    return list(np.random.default_rng(0).integers(0, 255, (5, 16, 16, 3)).astype(np.uint8))


def test_the_first_variant_is_the_plain_image_in_half_precision(frozen, images):
    features = frozen.features(images, crops=2)
    expected = frozen.network(frozen.preprocessing.batch(images)).detach().half().numpy()
    assert features.shape == (5, 4, 4, 7, 7)
    assert features.dtype == np.float16
    np.testing.assert_array_equal(features[:, PLAIN], expected)


def test_the_others_differ_from_it_and_are_the_same_every_time(frozen, images):
    features = frozen.features(images, crops=1)
    assert not np.array_equal(features[:, PLAIN], features[:, JITTERED])
    assert not np.array_equal(features[:, JITTERED], features[:, 2])
    np.testing.assert_array_equal(features, frozen.features(images, crops=1))


def test_for_testing_there_are_no_variants(frozen, images):
    assert frozen.features(images, crops=None).shape[:2] == (5, 1)


def test_what_was_computed_is_not_computed_again(frozen, images, tmp_path, monkeypatch):
    groups = {"a": (list("vwxyz"), images)}
    first = cached_features(frozen, groups, 1, tmp_path)["a"]
    monkeypatch.setattr(FrozenStages, "features", None)  # calling it would fail
    again = cached_features(frozen, groups, 1, tmp_path)["a"]
    assert isinstance(again, np.memmap)
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("change", ["weights", "images", "crops"])
def test_other_weights_images_or_variants_are_computed(frozen, images, tmp_path, change):
    names, crops = list("vwxyz"), 1
    cached_features(frozen, {"a": (names, images)}, crops, tmp_path)
    if change == "weights":
        nn.init.zeros_(frozen.network[0].weight)
    if change == "images":
        names = list("vwxy!")
    if change == "crops":
        crops = 0
    cached_features(frozen, {"a": (names, images)}, crops, tmp_path)
    assert len(list(tmp_path.glob("*.npy"))) == 2
