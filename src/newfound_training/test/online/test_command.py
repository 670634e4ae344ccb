# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
from pathlib import Path

import pytest

from newfound_training.commands import main

NO_DATA = "NEWFOUND_DATA is not set: the folder that holds pacs128"


def write_preset_like(path: Path) -> Path:
    path.write_text("orders: 2\nframes_per_update: 4\nverify_frames: 12\n")
    return path


@pytest.fixture
def small_preset(monkeypatch):
    """Source models of a few seconds."""
    values = {"backbone": "cifar_resnet20", "weights": "random", "image_size": 32}
    values |= {"frozen_stages": 0, "batch_size": 8, "iterations": 12}
    monkeypatch.setattr(
        "newfound_training.online.experiment.read_preset", lambda command, name: dict(values)
    )


def test_the_whole_table_by_one_command(tree, tmp_path, small_preset, undocumented):
    out = tmp_path / "out"
    arguments = ["evaluate-online", "--data", str(tree), "--out", str(out)]
    arguments += ["--config", str(write_preset_like(tmp_path / "options.yaml"))]
    arguments += ["--sweep-pair", "bright:dark", "--sweep-orders", "1"]
    arguments += ["--sweep-momentum", "0.1", "0.5", "--sweep-frames", "2", "4"]
    arguments += ["--dial", "bright:dark"]
    assert main(arguments) == 0
    result = json.loads((out / "result.json").read_text())
    pairs = [(p["source"], p["target"]) for p in result["pairs"]]
    assert pairs == [("bright", "dark"), ("dark", "bright")]
    assert 0 <= result["pairs"][0]["dial"] <= 1
    assert result["verification"]["batch"] == {"frames": 12, "predicted_alike": 12}
    assert set(result["sweep"]["momentum"]) == {"0.1", "0.5"}
    assert set(result["sources"]) == {"bright", "dark"}
    data = {"bright", "dark", "batch", "streaming", "0.1", "0.5", "2", "4"}
    assert not undocumented("evaluate-online", result, data)
    for name in ("table.md", "streams.png", "sweep.png", "confusion.png"):
        assert (out / name).stat().st_size

    # Again: everything is there already, and the result is the same.
    (out / "result.json").unlink()
    assert main([*arguments, "--resume"]) == 0
    again = json.loads((out / "result.json").read_text())
    assert again["pairs"] == result["pairs"]


def test_a_model_that_exists_can_be_streamed(tree, tmp_path, small_model):
    out = tmp_path / "out"
    arguments = ["evaluate-online", "--data", str(tree), "--out", str(out)]
    arguments += ["--checkpoint", str(small_model.directory), "--pairs", "elsewhere:dark"]
    assert main([*arguments, "--orders", "1", "--verify-frames", "0", "--frames", "15"]) == 0
    result = json.loads((out / "result.json").read_text())
    assert result["pairs"][0]["frames"] == 15
    assert result["sources"] == {}
    assert not (out / "sources").exists()


def test_streams_of_other_images_are_not_taken_over(
    tree, tmp_path, small_model, make_image, capsys
):
    data = shutil.copytree(tree, tmp_path / "data")
    arguments = ["evaluate-online", "--data", str(data), "--out", str(tmp_path / "out")]
    arguments += ["--checkpoint", str(small_model.directory), "--pairs", "elsewhere:dark"]
    arguments += ["--orders", "1", "--verify-frames", "0", "--estimators", "streaming"]
    assert main(arguments) == 0
    make_image(data / "dark" / "red" / "00a.png", (9, 9, 9), 0)
    assert main([*arguments, "--resume"]) != 0
    assert "files were added, changed or removed" in capsys.readouterr().err


def test_sources_may_lie_in_another_folder_and_gains_are_given_by_changes(
    tree, tmp_path, small_preset, make_image
):
    for name, colour in (("blue", (9, 9, 99)), ("green", (9, 99, 9)), ("red", (99, 9, 9))):
        for number in range(4):
            make_image(tmp_path / "sources" / "dusk" / name / f"{number}.png", colour, number)
    out = tmp_path / "out"
    arguments = ["--data", str(tree), "--source-data", str(tmp_path / "sources"), "--orders", "1"]
    arguments += ["--conditions", "light", "--estimators", "streaming", "--verify-frames", "0"]
    assert main(["evaluate-online", *arguments, "--passes", "2", "--out", str(out)]) == 0
    result = json.loads((out / "result.json").read_text())
    pairs = [(p["source"], p["target"], p["frames"]) for p in result["pairs"]]
    assert pairs == [("dusk", "bright", 48), ("dusk", "dark", 48)]
    assert result["by_changes"]["1"]["pairs"] == result["only_changed"]["light"]["pairs"] == 2
    assert "| 1 | 2 |" in (out / "table.md").read_text()


def test_sources_of_other_classes_are_refused(tree, tmp_path, make_image, capsys):
    make_image(tmp_path / "sources" / "dusk" / "cup" / "0.png", (9, 9, 9), 0)
    arguments = ["--data", str(tree), "--source-data", str(tmp_path / "sources")]
    assert main(["evaluate-online", *arguments, "--out", str(tmp_path / "out")]) == 1
    assert "has the classes cup, but" in capsys.readouterr().err


def test_a_model_of_other_classes_is_refused(tmp_path, small_model, make_image, capsys):
    for domain in "ab":
        make_image(tmp_path / "data" / domain / "cup" / "0.png", (9, 9, 9), 0)
    arguments = ["--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    arguments += ["--checkpoint", str(small_model.directory), "--pairs", "a:b"]
    assert main(["evaluate-online", *arguments]) == 1
    assert "knows the classes blue, green, red" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif("NEWFOUND_DATA" not in os.environ, reason=NO_DATA)
def test_the_quick_table_on_pacs_shows_the_direction(tmp_path, shared_cache):
    data = Path(os.environ["NEWFOUND_DATA"]) / "pacs128"
    out = tmp_path / "out"
    # Of the 100 frames that count in the preset's 200, five decided between processors.
    options = ["--data", str(data), "--out", str(out), "--quick", "--frames", "800"]
    assert main(["evaluate-online", *options]) == 0
    (pair,) = json.loads((out / "result.json").read_text())["pairs"]
    gap = pair["re_estimated"]["last_half"] - pair["source_only"]["last_half"]
    assert gap > 0.05
    for estimator in ("batch", "streaming"):
        assert pair[estimator]["gap_closed"] > 0.5
