# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.classifier import imagenet_classifier
from newfound_web.vision import Vision


@pytest.fixture(scope="module")
def vision():
    return Vision()


@pytest.fixture
def rgb(picture_of):
    return picture_of(1).rgb


def test_names_are_those_of_the_classifier_by_falling_probability(vision, rgb):
    network = imagenet_classifier()
    with torch.inference_mode():
        logits = network(network.preprocessing(rgb)[None])[0].numpy().astype(float)
    expected = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    order = np.argsort(-expected)[:3]
    found = vision.names(rgb, 3)
    assert [name for name, _ in found] == [network.labels[i] for i in order]
    assert np.allclose([p for _, p in found], expected[order], atol=1e-5)
    assert len(vision.names(rgb, 5000)) == 1000


def test_features_are_a_vector_that_depends_on_the_picture(vision, rgb, picture_of):
    first, again = vision.features(rgb), vision.features(rgb)
    assert first.shape == (1280,)
    assert first.dtype == np.float32
    assert np.array_equal(first, again)
    assert not np.allclose(first, vision.features(picture_of(2).rgb))
