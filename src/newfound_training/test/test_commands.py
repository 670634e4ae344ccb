# SPDX-License-Identifier: Apache-2.0
import ast
from pathlib import Path

import pytest

import newfound_training
from newfound_training.commands import COMMANDS, find, main


def test_every_command_has_a_summary_and_documents_its_result():
    for name in COMMANDS:
        assert find(name).name == name
        assert find(name).summary
        assert find(name).result_keys


def test_help_names_options_presets_and_keys(capsys):
    with pytest.raises(SystemExit) as end:
        main(["train-source", "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    for word in ("--data", "--resume", "--quick", "thesis_alexnet", "validation_accuracy"):
        assert word in text


def test_an_unknown_command_is_refused_with_the_list(capsys):
    assert main(["train-everything"]) == 2
    assert "train-source" in capsys.readouterr().err


def test_the_package_imports_no_ros_and_unpickles_nothing():
    for path in Path(newfound_training.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not {n.split(".")[0] for n in names} & {"rclpy", "pickle"}, path
