# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest
import torch

from newfound_core.classifier import imagenet_classifier
from newfound_core.models import load_model
from newfound_core.naming import read_names
from newfound_training.commands import main
from newfound_training.naming.imagenet import class_names, fitted_confidence
from newfound_training.naming.make import HOUSEHOLD, held_out_calibration


def test_the_thousand_classes_have_different_names():
    names = class_names()
    assert len(set(names)) == 1000
    assert names[151] == "chihuahua dog"
    assert names[134] == "crane bird"


def test_the_household_names_are_different():
    assert len(read_names(HOUSEHOLD)) > 900


def drawn(count=4000):
    """Cosines, right names and seen names of a known temperature, 0.2, and penalty, 1.5."""
    random = np.random.default_rng(0)
    cosines, seen = random.uniform(-1, 1, (count, 20)), np.arange(20) < 8
    p = np.exp(cosines / 0.2 - 1.5 * seen)
    p /= p.sum(axis=1, keepdims=True)
    return cosines, np.array([random.choice(20, p=row) for row in p]), seen


def test_the_confidence_is_the_one_that_made_the_data():
    temperature, penalty = fitted_confidence(*drawn())
    assert temperature == pytest.approx(0.2, rel=0.1)
    assert penalty == pytest.approx(1.5, abs=0.15)


def test_answers_for_held_out_classes_are_as_right_as_they_are_sure():
    found = held_out_calibration(*drawn())
    assert found["calibration_error"] < 0.05
    assert found["calibration_confidence"] == pytest.approx(found["calibration_first"], abs=0.05)


@pytest.mark.parametrize("form", ["convex", "linear"])
def test_the_classifier_and_words_become_a_namer(form, words, stock, tmp_path, tree, undocumented):
    given = ("--words", words, "--vocabulary", stock, "--form", form, "--out", tmp_path / "out")
    assert main([str(v) for v in ("make-names", *given, "--no-imagenet-names")]) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert undocumented("make-names", result) == set()
    assert result["vocabulary"] == 3
    model = load_model(tmp_path / "out" / "checkpoint", "cumix").model
    features = torch.rand(4, 1280, generator=torch.manual_seed(0))
    if form == "convex":
        logits = imagenet_classifier().classifier(features).detach()
        assert torch.allclose(model.projection(features), 0.67 * logits, atol=0.05)
    answers = model.answer(features[:1], model.own_vocabulary(), 5)
    assert {a.name for a in answers} == {"hammer", "teapot", "red square"}


def test_images_without_a_name_of_the_vocabulary_are_told(words, stock, tmp_path, tree, capsys):
    given = ("--words", words, "--vocabulary", stock, "--data", tree, "--out", tmp_path / "out",
             "--no-imagenet-names")  # fmt: skip
    assert main([str(v) for v in ("make-names", *given)]) == 1
    assert "no class is a name" in capsys.readouterr().err
