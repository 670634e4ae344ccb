# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import dataclass

import pytest

from newfound_core.errors import DataError
from newfound_training.running.command import Command, execute
from newfound_training.running.options import CommonOptions, option


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


def test_an_interruption_says_how_to_go_on(tmp_path, capsys):
    arguments = ["--data", "d", "--out", str(tmp_path / "out"), "--number", "0"]
    assert execute(COMMAND, arguments) == 130
    assert "--resume" in capsys.readouterr().err
