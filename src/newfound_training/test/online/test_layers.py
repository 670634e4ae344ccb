# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest
import torch

from newfound_core.models import load_model
from newfound_training.commands import main
from newfound_training.online.layers import (
    TARGETS,
    best_choice,
    candidates,
    choose_layers,
    mean_confidence,
)


def test_the_choice_that_gains_most_among_the_safe_ones_is_taken():
    gains = {
        "last:4": {"a": 0.01, "b": 0.02},
        "last:16": {"a": 0.10, "b": -0.005},
        "all": {"a": 0.30, "b": -0.05},
    }
    assert best_choice(gains) == "last:16"
    assert best_choice({"last:4": {"a": -0.03}, "all": {"a": -0.02}}) == "all"


def test_choices_are_the_last_layers_and_all(small_model):
    assert candidates(small_model.model)[-1] == "all"
    assert candidates(small_model.model)[0] == "last:4"


@pytest.mark.parametrize("name", TARGETS)
def test_a_changed_picture_is_a_picture(name):
    pictures = torch.rand(2, 3, 16, 16)
    changed = TARGETS[name](pictures)
    assert changed.shape == pictures.shape
    assert 0 <= float(changed.min()) <= float(changed.max()) <= 1


def test_few_images_choose_nothing(small_model):
    images = [np.zeros((32, 32, 3), np.uint8)] * 5
    prepared = small_model.metadata.preprocessing
    labels = np.zeros(5, int)
    choice = choose_layers(small_model.model, images, labels, prepared, device=torch.device("cpu"))
    assert choice.facts() == {"adaptive_layers": "all", "source_confidence": None}


def test_confidence_is_the_mean_probability_of_the_answers(small_model):
    images = torch.randn(7, 3, 32, 32)
    with torch.no_grad():
        expected = small_model.model(images).double().softmax(1).max(1).values.mean()
    assert mean_confidence(small_model.model, images) == pytest.approx(float(expected), rel=1e-5)


def test_a_checkpoint_is_told_its_layers_and_its_confidence(
    tree, tmp_path, small_model, make_image, undocumented
):
    for name, colour in (("blue", (9, 9, 99)), ("green", (9, 99, 9)), ("red", (99, 9, 9))):
        for number in range(11):
            make_image(tmp_path / "data" / "dusk" / name / f"{number}.png", colour, number)
    out = tmp_path / "out"
    arguments = ["choose-layers", "--checkpoint", str(small_model.directory), "--out", str(out)]
    arguments += ["--data", str(tmp_path / "data"), "--validation-share", "1"]
    assert main(arguments) == 0
    result = json.loads((out / "result.json").read_text())
    assert set(result["gains"]) == set(candidates(small_model.model))
    assert len(result["gains"]["all"]) == 2 * len(TARGETS)
    data = {*result["gains"], *result["gains"]["all"]}
    assert not undocumented("choose-layers", result, data)
    model = load_model(out / "checkpoint").model
    assert model.adaptive_layers == result["adaptive_layers"]
    assert model.source_confidence == result["source_confidence"]
