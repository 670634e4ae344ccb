# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from newfound_core.models import load_model
from newfound_core.onda import OndaConfig
from newfound_core.onda.statistics import NormalizationLayers
from newfound_core.onda.watch import Watch
from newfound_core.open_world.memory_store import load_memory
from newfound_core.rejection import EVIDENCE
from newfound_core.testing import tiny, tiny_open_world
from newfound_training.calibrate import fit_logistic, fit_temperature
from newfound_training.commands import main


@pytest.fixture
def data(tmp_path, make_image):
    """Three known colours, and pictures of another one."""
    colours = {"mug": (30, 60, 200), "hammer": (40, 180, 60), "banana": (200, 40, 40)}
    for label, colour in colours.items():
        for number in range(16):
            make_image(tmp_path / "known" / "shop" / label / f"{number}.png", colour, number)
    for number in range(12):
        make_image(tmp_path / "others" / f"{number}.png", (250, 250, 250), number)
    return tmp_path


def calibrate(data, *more):
    checkpoint = tiny(data / "model")
    arguments = ["--checkpoint", str(checkpoint), "--data", str(data / "known")]
    return main(["calibrate", *arguments, "--out", str(data / "out"), *more])


def test_the_classifier_gets_one_more_answer_and_keeps_the_others(data, undocumented):
    assert calibrate(data, "--unknown", str(data / "others")) == 0
    result = json.loads((data / "out" / "result.json").read_text())
    assert not undocumented("calibrate", result, result["evidence"]["distance"])
    assert set(result["evidence"]) == set(EVIDENCE)
    assert (result["held_out"], result["others"]) == (24, 12)
    before, after = load_model(data / "model"), load_model(data / "out" / "checkpoint")
    images = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        old, new = before.model(images), after.model(images)
    assert new.shape == (3, 4)
    torch.testing.assert_close(new.exp().sum(1), torch.ones(3))
    assert torch.equal(new[:, :3].argmax(1), old.argmax(1))
    ranks = {
        kind: np.mean([v["auroc_left_out"], v["auroc_others"]])
        for kind, v in result["evidence"].items()
    }
    assert result["chosen"] == max(ranks, key=ranks.get)


@pytest.mark.parametrize("method", ["source", "bn"])
def test_onda_is_told_how_sure_the_calibrated_classifier_is_on_images_held_out(data, method):
    checkpoint = tiny(data / "model", method=method)
    arguments = ["--checkpoint", str(checkpoint), "--data", str(data / "known")]
    assert main(["calibrate", *arguments, "--out", str(data / "out")]) == 0
    result = json.loads((data / "out" / "result.json").read_text())
    model = load_model(data / "out" / "checkpoint").model
    usual = model.source_confidence
    assert usual == result["evidence"][result["chosen"]]["source_confidence"]
    assert 1 / 3 / 2 < usual < 1
    watch = Watch(NormalizationLayers(model), lambda output: getattr(output, "logits", output))
    watch.restart(OndaConfig(confidence_drop=0.05))
    assert watch.resting  # until the source has shown that it is less sure


def test_a_class_without_images_and_a_second_calibration_are_refused(data, capsys):
    (data / "known" / "shop" / "mug").rename(data / "known" / "shop" / "cup")
    assert calibrate(data) == 1
    assert "no images of mug" in capsys.readouterr().err
    (data / "known" / "shop" / "cup").rename(data / "known" / "shop" / "mug")
    again = tiny(data / "again", rejects=0.5)
    arguments = ["--checkpoint", str(again), "--data", str(data / "known")]
    assert main(["calibrate", *arguments, "--out", str(data / "out2")]) == 2
    assert "has a rejection" in capsys.readouterr().err


def test_domains_held_out_must_leave_images_of_every_class(data, capsys):
    home = data / "known" / "home"
    home.mkdir()
    (data / "known" / "shop" / "mug").rename(home / "mug")
    place = ["--checkpoint", str(tiny(data / "model")), "--data", str(data / "known")]
    for held_out, missing in (
        (["home"], "the held-out domains have no images of hammer, banana"),
        (["home", "shop"], "the other domains have no images of mug, hammer, banana"),
    ):
        wanted = ["--out", str(data / "out"), "--held-out-domains", *held_out]
        assert main(["calibrate", *place, *wanted]) == 1
        assert missing in capsys.readouterr().err


def test_the_logistic_fit_is_that_of_an_independent_implementation():
    generator = torch.Generator().manual_seed(0)
    known = 3 + torch.randn(400, generator=generator)
    unknown = torch.randn(400, generator=generator)
    (slope,), bias = fit_logistic(known[:, None], unknown[:, None], torch.full((400,), 1 / 400))
    signs = np.repeat([1.0, -1.0], 400)
    values = torch.cat([known, unknown]).double().numpy()

    def loss(found):
        return np.logaddexp(0, -signs * (found[0] * values + found[1])).mean()

    expected = minimize(loss, [0.0, 0.0]).x
    assert [slope, bias] == pytest.approx(expected, rel=0.05)


def test_the_temperature_undoes_a_scale_of_the_logits():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(4000, 5, generator=generator)
    labels = torch.distributions.Categorical(logits=logits).sample()
    assert fit_temperature(4 * logits, labels) == pytest.approx(4, rel=0.1)


def test_an_open_world_model_is_calibrated_on_its_memory(tmp_path):
    colours = {name: (40 * i, 255 - 40 * i, 90) for i, name in enumerate("abcde")}
    checkpoint = tiny_open_world(tmp_path / "model", colours, images=8, held_out=0.5)
    arguments = ["--checkpoint", str(checkpoint), "--out", str(tmp_path / "out")]
    assert main(["calibrate", *arguments]) == 0
    loaded = load_model(tmp_path / "out" / "checkpoint")
    assert loaded.model.head.calibration is not None
    assert load_memory(tmp_path / "out" / "checkpoint" / "memory").labels == list("abcde")
