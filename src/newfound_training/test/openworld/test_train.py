# SPDX-License-Identifier: Apache-2.0
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from newfound_core.models import load_model
from newfound_core.open_world.memory_store import load_memory
from newfound_training.commands import main
from newfound_training.openworld.options import TrainOpenWorldOptions
from newfound_training.openworld.train import Training
from newfound_training.running.command import Run

PROTOCOL = ["--known-classes", "4", "--initial-classes", "2", "--classes-per-step", "1"]
PROTOCOL += ["--memory-size", "20"]


def test_a_checkpoint_with_memory_comes_out(small_flags, tmp_path):
    flags = [*small_flags, *PROTOCOL, "--set", "epochs=2", "later_epochs=1"]
    assert main(["train-openworld", *flags, "--memory-quality", "90"]) == 0
    out = tmp_path / "out"
    assert {p.suffix for p in (out / "checkpoint/memory/images").iterdir()} == {".jpg"}
    result = json.loads((out / "result.json").read_text())
    loaded = load_model(out / "checkpoint", method="bdoc")
    assert list(loaded.labels) == result["classes"]
    assert len(result["steps"]) == 3
    assert len(load_memory(out / "checkpoint" / "memory")) == result["remembered"] <= 20
    assert "Open-world recognition of 4 classes" in (out / "checkpoint/README.md").read_text()
    for name in ("steps.png", "confusion.png", "trade_off.png"):
        assert (out / name).stat().st_size
    image = np.zeros((40, 30, 3), np.uint8)
    assert len(loaded.model.decide(loaded.prepare([image]))) == 1


def test_the_checkpoint_decides_as_the_last_step_was_measured(small_flags, squares, tmp_path):
    """Frozen stages included: what was trained on cached features works on images."""
    weights = tmp_path / "start"
    assert main(["train-openworld", *small_flags, *PROTOCOL, "--set", "epochs=1"]) == 0
    (tmp_path / "out").rename(weights)
    source = load_file(weights / "checkpoint" / "model.safetensors")
    from safetensors.torch import save_file

    backbone = {k.removeprefix("backbone."): v for k, v in source.items() if k[:5] != "head."}
    save_file(backbone, tmp_path / "backbone.safetensors")
    flags = [*small_flags, *PROTOCOL, "--weights", str(tmp_path / "backbone.safetensors")]
    flags += ["--frozen-stages", "3", "--set", "epochs=1", "later_epochs=1"]
    assert main(["train-openworld", *flags]) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    loaded = load_model(tmp_path / "out" / "checkpoint")
    right, total = 0, 0
    from PIL import Image

    for number, label in enumerate(loaded.labels):
        for path in (squares / "test" / label).iterdir():
            image = loaded.prepare([np.asarray(Image.open(path))])
            right += int(loaded.model.decide(image).nearest) == number
            total += 1
    # Cached features are of half precision: a sample on the border may fall to the other side.
    assert right / total == pytest.approx(
        result["final"]["closed_world_without_rejection"], abs=1.1 / total
    )


@pytest.mark.parametrize("command", ["train-openworld", "evaluate-openworld"])
def test_it_does_not_resume_on_other_images(small_flags, squares, tmp_path, capsys, command):
    data = shutil.copytree(squares, tmp_path / "data")
    flags = [*small_flags, *PROTOCOL[:2], "--data", str(data)]
    flags += ["--set", "epochs=0"] if command == "train-openworld" else ["--rows", "ncm"]
    flags += ["--orders", "1", "--seeds", "1", "--classes", "all"] * ("--rows" in flags)
    assert main([command, *flags]) == 0
    shutil.copy(data / "train" / "red" / "00.png", data / "train" / "red" / "000.png")
    assert main([command, *flags, "--resume"]) != 0
    assert "files were added, changed or removed" in capsys.readouterr().err


def test_an_option_that_the_method_does_not_have_is_refused(small_flags, capsys):
    assert main(["train-openworld", *small_flags, "--set", "percentile=3"]) == 2
    assert "bdoc has no option percentile" in capsys.readouterr().err


def test_the_precision_asked_for_is_that_of_every_step(small_options, tmp_path):
    options = TrainOpenWorldOptions(**small_options, precision="bfloat16")
    run = Run("train-openworld", tmp_path, torch.device("cpu"), 0, options.data)
    setting = Training(options, run).setting
    assert [setting.step_config(step, 0).precision for step in range(2)] == ["bfloat16"] * 2


def test_two_processes_make_one_checkpoint(small_flags, tmp_path, run_command):
    flags = [*small_flags, *PROTOCOL, "--set", "epochs=1", "later_epochs=1"]
    done = run_command("train-openworld", *flags, processes=2)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("checkpoint written to") == 1
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["processes"] == 2
    loaded = load_model(tmp_path / "out" / "checkpoint")
    assert list(loaded.labels) == result["classes"]


def test_killed_and_resumed_it_ends_with_the_same_weights(
    small_flags, tmp_path, run_command, kill_command
):
    flags = ["train-openworld", *small_flags, *PROTOCOL, "--set", "epochs=3", "later_epochs=2"]
    assert run_command(*flags).returncode == 0
    out = tmp_path / "out"
    out.rename(tmp_path / "whole")
    for wanted in ("epoch.safetensors", "steps.safetensors"):
        kill_command(out / "state" / wanted, *flags, "--resume")
    assert not (out / "result.json").exists()
    assert run_command(*flags, "--resume").returncode == 0
    whole, resumed = (
        load_file(tmp_path / name / "checkpoint" / "model.safetensors")
        for name in ("whole", "out")
    )
    assert all((resumed[name] == tensor).all() for name, tensor in whole.items())
