# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.errors import CheckpointError, ConfigError, DataError
from newfound_core.models import load_model, save_model
from newfound_core.naming import NamingConfig, NamingModel, ridge_projection
from newfound_core.preprocessing import Preprocessing

RANDOM = np.random.default_rng(0)
NAMES = ("hammer", "teapot", "claw", "light bulb")


def unit(values):
    return values / np.linalg.norm(values, axis=1, keepdims=True)


SEEN, VOCABULARY = unit(RANDOM.normal(size=(3, 6))), unit(RANDOM.normal(size=(4, 6)))


def model(**config):
    torch.manual_seed(0)
    backbone = build_backbone("cifar_resnet8")
    made = NamingModel(backbone, 3, NAMES, 6, NamingConfig(**config))
    made.set_vectors(SEEN, VOCABULARY)
    return made.eval()


def features(made, count=5):
    return torch.randn(count, made.backbone.feature_dim, generator=torch.manual_seed(1))


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("form", ["linear", "convex"])
def test_probabilities_are_those_of_independent_code(form, centred):
    made = model(form=form, center=centred, kept_classes=2, temperature=0.2)
    x = features(made)
    weight, bias = (p.detach().double().numpy() for p in made.projection.parameters())
    mean = VOCABULARY.mean(axis=0) if centred else 0
    seen, names = unit(SEEN - mean), unit(VOCABULARY - mean)
    embedding = x.double().numpy() @ weight.T + bias
    if form == "convex":
        p = np.exp(embedding) / np.exp(embedding).sum(axis=1, keepdims=True)
        p[np.arange(len(p)), p.argmin(axis=1)] = 0
        embedding = p @ seen
    cosine = unit(embedding) @ names.T / 0.2
    expected = cosine - np.log(np.exp(cosine).sum(axis=1, keepdims=True))
    found = made.log_probabilities(x, made.own_vocabulary())
    assert np.allclose(found.numpy(), expected, atol=1e-4)


def test_known_names_are_left_out_and_the_rest_adds_up_to_one():
    made = model()
    answers = made.answer(features(made, 1), made.own_vocabulary(), 9, exclude=["Light_bulb"])
    assert {a.name for a in answers} == {"hammer", "teapot", "claw"}
    assert sum(a.confidence for a in answers) == pytest.approx(1)
    assert [a.confidence for a in answers] == sorted((a.confidence for a in answers), reverse=True)
    assert made.answer(features(made, 1), made.own_vocabulary(), 9, exclude=NAMES) == []


def test_views_of_one_object_vote():
    made = model()
    views, vocabulary = features(made, 3), made.own_vocabulary()
    together = made.answer(views, vocabulary, 4)
    logs = made.log_probabilities(views, vocabulary).double().mean(0).numpy()
    expected = np.exp(logs) / np.exp(logs).sum()
    for answer in together:
        assert answer.confidence == pytest.approx(expected[NAMES.index(answer.name)], abs=1e-5)


def test_a_name_outside_the_span_of_the_seen_classes_is_not_proposed():
    made = model(center=False)
    made.class_vectors.zero_()
    made.class_vectors[:, :2] = torch.tensor([[1.0, 0], [0, 1], [0.6, 0.8]])
    made.vocabulary_vectors.copy_(torch.eye(6)[:4])
    answers = made.answer(features(made, 1), made.own_vocabulary(), 9, min_span=0.5)
    assert {a.name for a in answers} == {"hammer", "teapot"}
    assert all(0.5 < a.span_share < 1 for a in answers)


def test_names_of_seen_classes_pay_the_penalty():
    plain, made = model(center=False), model(center=False, seen_penalty=1.5)
    for one in (plain, made):
        one.class_vectors[1] = one.vocabulary_vectors[2]
    x = features(made)
    logits = plain.log_probabilities(x, plain.own_vocabulary()).double().numpy()
    logits[:, 2] -= 1.5
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    found = made.log_probabilities(x, made.own_vocabulary()).numpy()
    assert np.allclose(found, expected, atol=1e-5)


def test_another_vocabulary_is_made_of_the_words_of_the_checkpoint():
    made = model(center=False)
    found = made.encode(["claw hammer", "teapots"])
    expected = unit((VOCABULARY[2] + VOCABULARY[0])[None])[0]
    assert np.allclose(found.vectors[0].numpy(), expected, atol=1e-6)
    with pytest.raises(DataError, match="similar: hammer"):
        made.encode(["hamer"])


def test_a_checkpoint_gives_the_same_answers(tmp_path):
    made = model(form="convex", temperature=0.3)
    save_model(tmp_path / "c", made, ["a", "b", "c"], Preprocessing(32))
    loaded = load_model(tmp_path / "c", "cumix").model
    assert loaded.config == made.config
    x = features(made)
    assert torch.equal(
        made.log_probabilities(x, made.own_vocabulary()),
        loaded.log_probabilities(x, loaded.own_vocabulary()),
    )


def test_a_checkpoint_with_too_few_labels_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="class_vectors has 3"):
        save_model(tmp_path / "c", model(), ["a", "b"], Preprocessing(32))


def test_ridge_solves_its_least_squares():
    x, v = RANDOM.normal(size=(30, 8)), RANDOM.normal(size=(30, 3))
    weight, bias = ridge_projection(x, v, 0.7)
    # The same as least squares with rows of sqrt(strength) below, an unpenalised intercept beside.
    below = np.hstack([np.sqrt(0.7) * np.eye(8), np.zeros((8, 1))])
    design = np.vstack([np.hstack([x, np.ones((30, 1))]), below])
    target = np.vstack([v, np.zeros((8, 3))])
    expected = np.linalg.lstsq(design, target, rcond=None)[0]
    assert np.allclose(weight.T, expected[:8])
    assert np.allclose(bias, expected[8])


def test_settings_without_meaning_are_refused():
    for wrong in ({"form": "x"}, {"temperature": 0}, {"kept_classes": 0},
                  {"seen_penalty": -1}):  # fmt: skip
        with pytest.raises(ConfigError):
            NamingConfig(**wrong)
    with pytest.raises(ConfigError, match="two seen"):
        NamingModel(build_backbone("cifar_resnet8"), 1, NAMES, 6)
    with pytest.raises(ConfigError, match="different"):
        NamingModel(build_backbone("cifar_resnet8"), 2, ("a", "A"), 6)
