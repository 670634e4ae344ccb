# SPDX-License-Identifier: Apache-2.0
import json
import time

import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_training.running.run import Clock, Run, begin, finish

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
