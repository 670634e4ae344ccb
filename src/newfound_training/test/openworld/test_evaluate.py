# SPDX-License-Identifier: Apache-2.0
import json
import os
from pathlib import Path

import pytest

from newfound_training.commands import main

NO_DATA = "NEWFOUND_DATA is not set: the folder that holds cifar60"


def test_the_table_by_one_command_and_again_from_its_cells(small_flags, tmp_path, monkeypatch):
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
    assert {p.suffix for p in (out / "cells").rglob("*")} == {"", ".json"}  # no states left
    for name in ("table.md", "steps.png", "trade_off.png"):
        assert (out / name).stat().st_size

    # Again: everything is there already, and the result is the same.
    (out / "result.json").unlink()
    monkeypatch.setattr("newfound_training.openworld.cells.Incremental", None)
    assert main([*flags, "--resume"]) == 0
    assert json.loads((out / "result.json").read_text())["rows"] == result["rows"]


@pytest.mark.slow
def test_two_processes_share_the_cells_of_a_table(small_flags, tmp_path, run_command):
    flags = [*small_flags, "--choice-classes", "0", "--orders", "2", "--seeds", "1"]
    flags += ["--known-classes", "3", "--initial-classes", "2", "--classes-per-step", "1"]
    flags += ["--memory-size", "12", "--rows", "ncm", "bdoc: method=bdoc epochs=1 later_epochs=1"]
    tables = []
    for processes in (2, 1):
        done = run_command("evaluate-openworld", *flags, processes=processes)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("after the last step\n") == 2 * 2  # every cell once
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
def test_the_quick_table_on_cifar_shows_the_direction(tmp_path):
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
def test_the_quick_table_from_scratch_shows_the_direction(tmp_path):
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
