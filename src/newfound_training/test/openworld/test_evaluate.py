# SPDX-License-Identifier: Apache-2.0

import json
import os
from pathlib import Path

import pytest
import torch

from newfound_core.storage import read_json
from newfound_training.commands import main
from newfound_training.data import open_images
from newfound_training.openworld.dataset import chosen_classes
from newfound_training.openworld.evaluate import TableRun, TableRuns
from newfound_training.openworld.options import EvaluateOpenWorldOptions, parse_row
from newfound_training.running.command import Run


@pytest.fixture
def table_runs(small_options, tmp_path):
    options = EvaluateOpenWorldOptions(
        **small_options, choice_classes=2, known_classes=2, memory_size=10
    )
    return TableRuns(options, Run("test", tmp_path, torch.device("cpu"), 0, "data"))


def test_a_run_is_kept_in_a_file_of_its_own(table_runs, tmp_path):
    table_run = TableRun(parse_row("plain mean: method=ncm"), order=1, seed=2)
    records = table_runs.records(table_run)
    path = tmp_path / "runs" / "plain_mean" / "order1-seed2.json"
    assert read_json(path) == {"row": "plain mean", "steps": records}
    assert table_runs.records(table_run) == records


def test_the_two_kinds_of_classes_have_nothing_in_common(squares):
    images = open_images(squares)
    found = {
        kind: chosen_classes(
            images.class_names, EvaluateOpenWorldOptions(classes=kind, choice_classes=2)
        )
        for kind in ("choice", "reported", "all")
    }
    assert not set(found["choice"]) & set(found["reported"])
    assert sorted(found["choice"] + found["reported"]) == found["all"]


def test_a_seed_gives_random_weights_of_its_own(table_runs):
    """The frozen baseline sees nothing of the seed but the weights."""
    row = parse_row("ncm")
    first, other = (table_runs.records(TableRun(row, 0, seed))[0]["trade_off"] for seed in (0, 1))
    assert first != other


NO_DATA = "NEWFOUND_DATA is not set: the folder that holds cifar60"


def test_the_table_by_one_command_and_again_from_its_runs(small_flags, tmp_path, monkeypatch):
    flags = ["evaluate-openworld", *small_flags, "--choice-classes", "0", "--orders", "2"]
    flags += ["--known-classes", "3", "--initial-classes", "2", "--classes-per-step", "1"]
    flags += ["--seeds", "1", "--memory-size", "12", "--rows", "ncm"]
    flags += ["bdoc: method=bdoc epochs=1 later_epochs=1"]
    flags += ["all at once: method=bdoc epochs=1 joint=true"]
    assert main(flags) == 0
    out = tmp_path / "out"
    result = json.loads((out / "result.json").read_text())
    assert list(result["rows"]) == ["ncm", "bdoc", "all at once"]
    assert result["rows"]["bdoc"]["runs"] == 2
    assert result["rows"]["all at once"]["known_classes"] == [3]
    assert result["above_baseline"]["bdoc"]["of"] == 2
    assert result["above_baseline"]["all at once"] is None  # its one step is not comparable
    assert set(result["best"]) == {"ncm", "bdoc"}
    assert len(result["rejection"]) == 6
    assert {p.suffix for p in (out / "runs").rglob("*")} == {"", ".json"}  # no states left
    for name in ("table.md", "steps.png", "trade_off.png"):
        assert (out / name).stat().st_size

    # Again: everything is there already, and the result is the same.
    (out / "result.json").unlink()
    monkeypatch.setattr("newfound_training.openworld.evaluate.Incremental", None)
    assert main([*flags, "--resume"]) == 0
    assert json.loads((out / "result.json").read_text())["rows"] == result["rows"]


def test_two_processes_share_the_runs_of_a_table(small_flags, tmp_path, run_command):
    flags = [*small_flags, "--choice-classes", "0", "--orders", "2", "--seeds", "1"]
    flags += ["--known-classes", "3", "--initial-classes", "2", "--classes-per-step", "1"]
    flags += ["--memory-size", "12", "--rows", "ncm", "bdoc: method=bdoc epochs=1 later_epochs=1"]
    tables = []
    for processes in (2, 1):
        done = run_command("evaluate-openworld", *flags, processes=processes)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("after the last step\n") == 2 * 2  # every run once
        result = json.loads((tmp_path / "out" / "result.json").read_text())
        assert result["processes"] == processes
        tables.append(result["rows"])
        (tmp_path / "out").rename(tmp_path / f"{processes}")
    assert tables[0] == tables[1]


@pytest.mark.parametrize("other", ["a b", "a_b", "A b"])
def test_two_rows_in_one_folder_are_refused(small_flags, capsys, other):
    rows = ["a b: method=ncm", f"{other}: method=bdoc"]
    assert main(["evaluate-openworld", *small_flags, "--rows", *rows]) == 2
    assert f"the rows 'a b' and {other!r} would be kept in one folder" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif("NEWFOUND_DATA" not in os.environ, reason=NO_DATA)
def test_the_quick_table_on_cifar_shows_the_direction(tmp_path, shared_cache):
    data = Path(os.environ["NEWFOUND_DATA"]) / "cifar60"
    out = tmp_path / "out"
    assert main(["evaluate-openworld", "--data", str(data), "--out", str(out), "--quick"]) == 0
    rows = json.loads((out / "result.json").read_text())["rows"]
    for name in ("ncm", "bdoc"):
        last = rows[name][rows[name]["chosen"]]["last_step"]
        assert last["closed_world_without_rejection"]["mean"] > 0.5  # by chance 0.17
        assert last["auroc"]["mean"] > 0.5
    over_steps = {n: rows[n][rows[n]["chosen"]]["mean_over_steps"] for n in ("ncm", "bdoc")}
    assert over_steps["bdoc"]["auroc"]["mean"] > over_steps["ncm"]["auroc"]["mean"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif("NEWFOUND_DATA" not in os.environ, reason=NO_DATA)
def test_the_quick_table_from_scratch_shows_the_direction(tmp_path, shared_cache):
    data, out = Path(os.environ["NEWFOUND_DATA"]) / "cifar60", tmp_path / "out"
    flags = ["--data", str(data), "--out", str(out), "--preset", "scratch_quick"]
    assert main(["evaluate-openworld", *flags]) == 0
    rows = json.loads((out / "result.json").read_text())["rows"]
    assert list(rows) == ["ncm", "bdoc", "deepnno", "nno", "joint"]
    reached = {
        name: row[row["chosen"]]["last_step"]["closed_world_without_rejection"]["mean"]
        for name, row in rows.items()
    }
    assert min(reached.values()) > 1 / 6  # chance
    # Networks that are trained on all classes, beside one that stays as two classes left it.
    assert max(reached["bdoc"], reached["deepnno"]) > reached["ncm"]
    assert reached["joint"] > reached["ncm"]
