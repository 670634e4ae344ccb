# SPDX-License-Identifier: Apache-2.0
import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from newfound_core.errors import ConfigError
from newfound_training.commands import find, main
from newfound_training.naming import cells
from newfound_training.naming.evaluate import Bench, EvaluateOptions, summary
from newfound_training.running.options import make_options, preset_names, read_preset

FAST = ("--preset", "quick", "--image-size", 32, "--images-per-class", 3, "--batch-size", 4)


def test_unseen_classes_in_an_unseen_domain(words, tree, tmp_path, undocumented):
    given = ("--data", tree, "--words", words, "--out", tmp_path / "out", "--targets", "dark")
    assert main([str(v) for v in ("evaluate-names", *given, *FAST)]) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert undocumented("evaluate-names", result, [*result["summary"], "dark"]) == set()
    assert len(result["rows"]) == 5
    # Of two seen classes none can play the unseen one.
    assert "generalised" not in result["rows"][0]
    found = result["summary"]["cumix"]
    assert 0 <= found["unseen_domain"] <= 1
    assert 0 < found["mixed_share"] < 0.5
    assert result["summary"]["cross_entropy"]["mixed_share"] == 0
    assert "CuMix" in (tmp_path / "out" / "table.md").read_text()
    # Resumed, nothing is computed again.
    cell = tmp_path / "out" / "cells" / "conse-dark-0.json"
    cell.write_text(json.dumps(json.loads(cell.read_text()) | {"unseen_domain": 0.125}))
    assert main([str(v) for v in ("evaluate-names", *given, *FAST, "--resume")]) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["summary"]["conse"]["unseen_domain"] == 0.125


def test_zero_shot_needs_words(tree, tmp_path, capsys):
    assert main(["evaluate-names", "--data", str(tree), "--out", str(tmp_path / "out")]) == 2
    assert "needs --words" in capsys.readouterr().err


def test_seen_classes_must_leave_one_to_ask_for(words, tree, tmp_path, capsys):
    classes = sorted({path.name for path in tree.glob("*/*")})
    given = ("--data", tree, "--words", words, "--out", tmp_path / "out", "--seen", *classes)
    assert main([str(v) for v in ("evaluate-names", *given, *FAST)]) == 2
    assert "none is left to be asked for" in capsys.readouterr().err


def test_a_domain_without_an_image_of_an_unseen_class_is_no_nan(words, tree, tmp_path, capsys):
    data = shutil.copytree(tree, tmp_path / "data")
    shutil.rmtree(data / "dark" / "red")
    seen = sorted({path.name for path in tree.glob("*/*")} - {"red"})
    given = ("--data", data, "--words", words, "--out", tmp_path / "out", "--seen", *seen)
    more = ("--targets", "dark", "--methods", "conse", "--no-generalised")
    assert main([str(v) for v in ("evaluate-names", *given, *more, *FAST)]) == 1
    assert "no image of the classes asked for" in capsys.readouterr().err


def test_known_classes_in_an_unseen_domain(tree, tmp_path):
    given = ("--data", tree, "--setting", "domains", "--methods", "cross_entropy", "cumix",
             "--targets", "dark", "--out", tmp_path / "out")  # fmt: skip
    assert main([str(v) for v in ("evaluate-names", *given, *FAST)]) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert {row["method"] for row in result["rows"]} == {"cross_entropy", "cumix"}


def test_renderings_of_photographs_are_domains(words, tree, tmp_path):
    given = ("--data", tree, "--words", words, "--out", tmp_path / "out", "--targets", "sketch",
             "--methods", "cross_entropy", "ridge", "--renderings", "photograph", "sketch",
             "--no-generalised", "--imagenet-seen")  # fmt: skip
    assert main([str(v) for v in ("evaluate-names", *given, *FAST)]) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert [row["target"] for row in result["rows"]] == ["sketch", "sketch"]
    assert "generalised" not in result["rows"][0]


def test_names_of_imagenet_can_be_kept_among_the_seen_classes():
    classes = ("castle", "mushroom", "oak_tree", "rose", "tulip", "willow_tree")
    options = EvaluateOptions(unseen_share=0.5, imagenet_seen=True)
    bench = SimpleNamespace(options=options, classes=classes)
    unseen = [set(classes) - {classes[i] for i in Bench.seen(bench, seed)} for seed in range(9)]
    assert all(len(names) == 3 and not names & {"castle", "mushroom"} for names in unseen)
    assert set.union(*unseen) == {"oak_tree", "rose", "tulip", "willow_tree"}
    bench.options = replace(options, unseen_share=0.8)
    with pytest.raises(ConfigError, match="no name for 4 only"):
        Bench.seen(bench, 0)


def test_accuracy_is_the_mean_of_the_classes():
    truth, predicted = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 0])
    assert cells.per_class_accuracy(predicted, truth) == pytest.approx(1 / 3)


def test_calibrated_stacking_takes_from_the_seen():
    scores = np.array([[3.0, 0, 2.9], [3.0, 0, 1.0]])
    truth = np.array([2, 0])
    assert cells.generalised(scores, truth, 2, 0.0) == 0
    assert cells.generalised(scores, truth, 2, 0.5) == 1


def test_differences_are_paired_by_target_and_seed():
    values = {"cross_entropy": [0.5, 0.7], "cumix": [0.6, 0.9]}
    rows = [{"method": m, "target": t, "seed": 0, "unseen_domain": v}
            for m, own in values.items() for t, v in zip("ab", own, strict=True)]  # fmt: skip
    found = summary(rows, list(values))["cumix"]["above_cross_entropy"]
    assert found["mean"] == pytest.approx(0.15)
    assert found["pairs"] == 2


@pytest.mark.parametrize("preset", preset_names("evaluate-names"))
def test_every_preset_is_valid(preset):
    values = {"words": "w", **read_preset("evaluate-names", preset)}
    options = make_options(find("evaluate-names").options, values)
    assert all(options.mixing(method) for method in ("cross_entropy", "mixup", "cumix"))


def test_settings_without_meaning_are_refused():
    with pytest.raises(ConfigError, match="know no domains"):
        EvaluateOptions(setting="domains")
