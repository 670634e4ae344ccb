# SPDX-License-Identifier: Apache-2.0

import json
import os
import shutil
import time
from dataclasses import dataclass

import pytest
import torch

from newfound_core.errors import ConfigError, DataError
from newfound_training.data import load_pixels, open_images
from newfound_training.running.command import (
    Clock,
    Command,
    Run,
    begin,
    execute,
    finish,
    require_same_data,
    require_same_images,
)
from newfound_training.running.distributed import DistributedGroup
from newfound_training.running.options import CommonOptions, option

OPTIONS = {"resume": False, "out": "x", "seed": 1, "lr": 0.1}


@pytest.fixture
def run(tmp_path):
    return Run("train-source", tmp_path / "out", torch.device("cpu"), 1, "data")


def test_a_folder_is_claimed_once_and_continued_on_demand(run):
    begin(run, OPTIONS)
    with pytest.raises(ConfigError, match="give --resume"):
        begin(run, OPTIONS)
    begin(run, OPTIONS | {"resume": True})


def test_resume_starts_anew_where_nothing_is(run):
    begin(run, OPTIONS | {"resume": True})


def test_a_run_is_not_continued_with_other_options(run):
    begin(run, OPTIONS)
    with pytest.raises(ConfigError, match=r"lr was 0\.1 and is 0\.2"):
        begin(run, OPTIONS | {"resume": True, "lr": 0.2})


def test_a_run_of_another_command_is_refused(run, tmp_path):
    begin(run, OPTIONS)
    other = Run("evaluate-online", tmp_path / "out", torch.device("cpu"), 1, "data")
    with pytest.raises(ConfigError, match="a run of train-source"):
        begin(other, OPTIONS | {"resume": True})


def test_a_folder_with_something_else_is_left_alone(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.pdf").write_text("precious")
    with pytest.raises(ConfigError, match="not empty"):
        begin(run, OPTIONS)


def test_the_result_says_what_was_run_and_found(run):
    clock = Clock()
    time.sleep(0.2)  # takes time, but no work
    finish(run, OPTIONS, {"accuracy": 0.5}, clock)
    result = json.loads((run.out / "result.json").read_text())
    assert result["accuracy"] == 0.5
    assert result["options"]["lr"] == 0.1
    assert result["seconds"] >= 0.2 > result["processor_seconds"] >= 0
    assert result["seed"] == 1


def test_a_part_of_a_run_writes_into_its_own_folder(run):
    assert run.inside("sources/photo").out == run.out / "sources" / "photo"


@pytest.fixture
def own_tree(tree, tmp_path):
    return shutil.copytree(tree, tmp_path / "tree")


def claim(root, run):
    require_same_images(load_pixels(open_images(root), 16).images, run)


def test_a_run_goes_on_with_the_images_it_began_with(own_tree, run):
    for _ in range(2):
        claim(own_tree, run)


def test_a_run_goes_on_with_a_copy_of_the_images_in_their_place(own_tree, run):
    claim(own_tree, run)
    for path in own_tree.rglob("*.png"):
        os.utime(path, (0, 0))  # as after a copy that does not keep times
    claim(own_tree, run)


@pytest.mark.parametrize("change", ["add", "remove", "replace", "add a class"])
def test_other_images_are_refused(own_tree, run, make_image, change):
    claim(own_tree, run)
    path = own_tree / "bright" / "red" / "03.png"
    if change == "remove":
        path.unlink()
    else:
        name = {"add": "red/new.png", "replace": "red/03.png", "add a class": "white/0.png"}
        make_image(own_tree / "bright" / name[change], (1, 2, 3), 99)
    with pytest.raises(ConfigError, match=r"files were added, changed or removed"):
        claim(own_tree, run)


def test_a_repaired_image_is_another_set(own_tree, run):
    path = own_tree / "bright" / "red" / "03.png"
    whole = path.read_bytes()
    path.write_bytes(b"cut off")
    claim(own_tree, run)
    path.write_bytes(whole)
    with pytest.raises(ConfigError, match=str(own_tree)):
        claim(own_tree, run)


def test_a_corrupt_image_that_stays_corrupt_makes_no_difference(own_tree, run):
    path = own_tree / "bright" / "red" / "03.png"
    for content in (b"cut off", b"cut off as well"):
        path.write_bytes(content)
        claim(own_tree, run)


def test_each_folder_of_a_run_is_remembered_by_itself(run, tmp_path):
    require_same_data(tmp_path / "a", ["1"], run)
    require_same_data(tmp_path / "b", ["2"], run)
    require_same_data(tmp_path / "a", ["1"], run)
    with pytest.raises(ConfigError, match=str(tmp_path / "b")):
        require_same_data(tmp_path / "b", ["1"], run)


def test_only_the_leading_process_remembers(tmp_path):
    run = Run("test", tmp_path / "out", torch.device("cpu"), 0, "data", DistributedGroup(1, 2))
    require_same_data(tmp_path, ["1"], run)
    assert not run.out.exists()


@dataclass(frozen=True)
class Options(CommonOptions):
    number: int = option(1, "to double")


def double(options, run):
    if options.number < 0:
        raise DataError("negative")
    if options.number == 0:
        raise KeyboardInterrupt
    return {"doubled": 2 * options.number}


COMMAND = Command("double", "Doubles.", Options, double, {"doubled": "twice the number"})


def test_a_command_writes_its_result(tmp_path):
    out = tmp_path / "out"
    assert execute(COMMAND, ["--data", "d", "--out", str(out), "--number", "4"]) == 0
    assert json.loads((out / "result.json").read_text())["doubled"] == 8
    line = json.loads((out / "result.json").read_text())["command_line"]
    assert line.startswith("python -m newfound_training double --data d --out")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--out", "o"], 2, "--data is required"),
        (["--data", "d"], 2, "--out is required"),
        (["--data", "d", "--out", "{out}", "--number", "-1"], 1, "double: negative"),
        (["--data", "d", "--out", "{out}", "--device", "cuda:99"], 2, "cuda:99"),
        (["--data", "d", "--out", "{out}", "--preset", "none"], 2, "no preset"),
        (["--data", "d", "--out", "{out}", "--seed", "-1"], 2, "seed must be in"),
        (["--data", "d", "--out", "{out}", "--seed", str(2**64)], 2, "seed must be in"),
        (["--data", "d", "--out", "{file}"], 2, "a_file cannot be written to"),
        (["--data", "d", "--out", "{file}/below"], 2, "choose another --out"),
        (["--data", "d", "--out", "/proc/newfound"], 2, "/proc/newfound cannot be written to"),
    ],
)
def test_known_errors_are_one_line_without_a_traceback(tmp_path, capsys, arguments, code, message):
    (tmp_path / "a_file").write_text("precious")
    arguments = [a.format(out=tmp_path / "out", file=tmp_path / "a_file") for a in arguments]
    assert execute(COMMAND, arguments) == code
    shown = capsys.readouterr().err
    assert message in shown
    assert len(shown.splitlines()) == 1


def test_what_was_refused_before_it_made_anything_may_be_asked_for_otherwise(tmp_path):
    arguments = ["--data", "d", "--out", str(tmp_path / "out"), "--number"]
    assert execute(COMMAND, [*arguments, "-1"]) == 1
    assert execute(COMMAND, [*arguments, "4"]) == 0
    assert execute(COMMAND, [*arguments, "-1", "--resume"]) == 2  # now something is there
    assert (tmp_path / "out" / "result.json").exists()


def test_an_interruption_says_how_to_go_on(tmp_path, capsys):
    arguments = ["--data", "d", "--out", str(tmp_path / "out"), "--number", "0"]
    assert execute(COMMAND, arguments) == 130
    assert "--resume" in capsys.readouterr().err
