# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.errors import CheckpointError, ConfigError
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.model import EmbeddingConfig, OpenWorldModel


def model_of(**embedding):
    head = build_head("ncm", 3)
    head.extend(["cup", "fork"])
    head.refit([(torch.eye(3)[:2] * 4, torch.arange(2))], features_changed=True)
    head.rejection_threshold[:] = 2.0
    return OpenWorldModel(nn.Linear(3, 3), head, EmbeddingConfig(**embedding))


def test_the_embedding_is_normalised_and_scaled():
    model = model_of(scale=4.0)
    images = torch.randn(5, 3)
    raw = model.backbone(images).detach().numpy()
    expected = 4 * raw / np.linalg.norm(raw, axis=1, keepdims=True)
    np.testing.assert_allclose(model.embed(images).detach().numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(model(images).detach().numpy(), expected, rtol=1e-5)


def test_without_normalisation_features_pass_as_they_are():
    model = model_of(normalize=False)
    images = torch.randn(5, 3)
    assert torch.equal(model.embed(images), model.backbone(images))


def test_features_of_regions_are_decided_like_images():
    model = model_of(scale=4.0)
    images = torch.randn(6, 3)
    by_image, by_features = model.decide(images), model.decide_features(model.backbone(images))
    assert torch.equal(by_image.label, by_features.label)
    assert torch.equal(by_image.distance, by_features.distance)
    assert model.decide_features(torch.tensor([[9.0, 0.1, 0.0]])).label.tolist() == [0]
    assert model.decide_features(torch.tensor([[0.0, 0.0, 9.0]])).label.tolist() == [-1]


def test_a_feature_of_zeros_does_not_become_nan():
    assert not model_of().decide_features(torch.zeros(1, 3)).distance.isnan().any()


def test_decisions_carry_no_gradient():
    assert not model_of().decide(torch.randn(2, 3)).distance.requires_grad


def test_options_and_tensors_make_the_same_model_again():
    model = model_of(scale=4.0)
    again = OpenWorldModel.from_options(nn.Linear(3, 3), json.loads(json.dumps(model.options())))
    again.load_tensors(model.state_dict())
    images = torch.randn(8, 3)
    assert again.labels == ["cup", "fork"]
    assert torch.equal(again.decide(images).label, model.decide(images).label)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop("backbone.bias"), "backbone.bias"),
        (lambda t: t.update({"other": torch.zeros(1)}), "other"),
        (lambda t: t.pop("head.rejection_threshold"), "'rejection_threshold' is missing"),
        (lambda t: t.update({"backbone.weight": torch.zeros(3, 4)}), "size mismatch"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(change, words):
    tensors = dict(model_of().state_dict())
    change(tensors)
    with pytest.raises(CheckpointError, match=words):
        model_of().load_tensors(tensors)


@pytest.mark.parametrize("options", [{}, {"embedding": {"colour": 1}, "head": {}}])
def test_options_that_are_none_are_refused(options):
    with pytest.raises(CheckpointError, match="not the options of an open-world model"):
        OpenWorldModel.from_options(nn.Linear(3, 3), options)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_senseless_scale_is_refused(scale):
    with pytest.raises(ConfigError):
        EmbeddingConfig(scale=scale)
