# SPDX-License-Identifier: Apache-2.0

import json
import shutil

import numpy as np
import pytest

from newfound_core.models import load_model
from newfound_training.commands import main
from newfound_training.places.options import PlacesOptions
from newfound_training.running.options import make_options, preset_names, read_preset


@pytest.mark.parametrize("method", ["bn", "wbn-latent"])
def test_images_become_a_checkpoint_that_names_places(rooms, tmp_path, tiny_flags, method, images):
    out = tmp_path / "out"
    arguments = ["--data", str(rooms), "--out", str(out), "--method", method, *tiny_flags]
    arguments += ["--target-domains", "villa", "--iterations", "10"]
    assert main(["train-places", *arguments]) == 0
    result = json.loads((out / "result.json").read_text())
    assert result["source_domains"] == ["cottage", "loft"]
    assert result["training_images"] + result["validation_images"] == 48
    target = result["targets"]["villa"]
    assert (target["images"], np.sum(target["confusion"])) == (24, 24)

    loaded = load_model(out / "checkpoint")
    assert loaded.labels == ("bedroom", "kitchen", "office")
    assert 1 / 3 < loaded.model.source_confidence <= 1  # by which ONDA judges whether to adapt
    villa = images.of("villa")
    found = loaded.model.categorize(loaded.prepare([images.pixels[i] for i in villa]))
    right = found.probabilities.argmax(1).numpy() == images.labels[villa]
    assert target["accuracy"] == pytest.approx(right.mean(), abs=1.5 / 24)  # rows are rounded
    card = (out / "checkpoint" / "README.md").read_text()
    assert "Never trained on: villa" in card
    assert (out / "confusion.png").exists()
    assert (out / "domain_weights.png").exists() == (method != "bn")
    assert not (out / "frozen_features").exists()


def test_softening_chosen_on_the_sources_is_in_the_checkpoint(rooms, tmp_path, tiny_flags):
    out = tmp_path / "out"
    arguments = ["--data", str(rooms), "--out", str(out), *tiny_flags, "--iterations", "5"]
    assert main(["train-places", *arguments]) == 0  # no target: all three are sources
    result = json.loads((out / "result.json").read_text())
    best = max(result["softening"][:-1], key=lambda entry: entry["accuracy"])
    config = load_model(out / "checkpoint").model.config
    assert config.assignment_smoothing == best["smoothing"]
    assert config.assignment_temperature == best["temperature"]


@pytest.mark.parametrize(
    "given",
    [
        ["--softening", "given"],
        ["--assignment-smoothing", "0.1"],
        ["--assignment-temperature", "3"],
    ],
)
def test_what_softens_wbn_is_refused_for_latent_domains(rooms, tmp_path, given, capsys):
    arguments = ["--data", str(rooms), "--out", str(tmp_path / "out"), "--method", "wbn-latent"]
    assert main(["train-places", *arguments, *given]) == 2
    assert "is for --method wbn" in capsys.readouterr().err


def test_one_source_is_too_few_for_domain_weights(rooms, tmp_path, tiny_flags, capsys):
    arguments = ["--data", str(rooms), "--out", str(tmp_path / "out"), *tiny_flags]
    arguments += ["--source-domains", "loft"]
    assert main(["train-places", *arguments]) == 2
    assert "wbn needs at least 2 source domains" in capsys.readouterr().err


def test_rows_of_an_interrupted_run_are_not_taken_for_those_of_other_images(
    rooms, tmp_path, tiny_flags, monkeypatch, capsys
):
    data = shutil.copytree(rooms, tmp_path / "data")
    arguments = ["train-places", "--data", str(data), "--out", str(tmp_path / "out"), *tiny_flags]
    with monkeypatch.context() as patch:
        patch.setattr("newfound_training.places.train.PlaceTask", None)
        with pytest.raises(TypeError):
            main(arguments)
    assert (tmp_path / "out" / "frozen_features").exists()
    picture = data / "cottage_day" / "bedroom" / "0.png"
    shutil.copy(picture, picture.with_name("00.png"))
    assert main([*arguments, "--resume"]) != 0
    assert "files were added, changed or removed" in capsys.readouterr().err


@pytest.mark.parametrize("name", preset_names("train-places"))
def test_every_preset_is_valid(name):
    make_options(PlacesOptions, read_preset("train-places", name))


def test_killed_at_once_and_resumed_it_ends_with_the_same_weights(
    rooms, tiny_flags, same_weights_after_a_kill
):
    arguments = ["train-places", "--data", rooms, *tiny_flags, "--target-domains", "villa"]
    arguments += ["--iterations", 40, "--save-every", 3, "--out"]
    same_weights_after_a_kill(*arguments)
