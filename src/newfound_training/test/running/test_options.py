# SPDX-License-Identifier: Apache-2.0

from dataclasses import dataclass, fields
from typing import Literal

import pytest
import yaml

from newfound_core.errors import ConfigError
from newfound_training.commands import COMMANDS, find
from newfound_training.running.options import (
    CommonOptions,
    as_values,
    build_parser,
    make_options,
    option,
    parse_options,
    preset_names,
    read_preset,
    read_values,
)
from newfound_training.running.training import TrainingOptions


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "+1e-3", "1.e-3", "1.0e-3", ".1e-2", "0.01e-1"])
def test_numbers_in_exponent_notation_are_numbers(text):
    assert read_values(text) == 0.001
    assert read_values(f"[{text}, 2e3, -4e0]") == [0.001, 2000.0, -4.0]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e", "1e"), ("e3", "e3"), ("1e3a", "1e3a"), ("'1e3'", "1e3"), ("7", 7), ("true", True)],
)
def test_everything_else_is_read_as_ever(text, value):
    found = read_values(text)
    assert (found, type(found)) == (value, type(value))


def test_nothing_but_plain_values_is_made():
    with pytest.raises(yaml.YAMLError):
        read_values("!!python/object/apply:os.getcwd []")


@dataclass(frozen=True)
class Options(CommonOptions):
    steps: int = option(5, "number")
    rate: float = option(0.5, "100 % of it")
    names: tuple[str, ...] = option((), "some")
    kind: Literal["a", "b"] = option("a", "one")
    kinds: tuple[Literal["a", "b"], ...] = option(("a",), "several")


def parse(*arguments):
    parser = build_parser("test", Options, "about", "more")
    return parse_options(Options, "train-source", parser, arguments)


def test_defaults_flags_and_files_in_that_order(tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text("steps: 7\nrate: 2\nnames: [x, y]\ncache-limit-gb: 1e-3\n")
    options = parse("--config", str(file), "--steps", "9")
    assert (options.steps, options.rate, options.names) == (9, 2.0, ("x", "y"))
    assert options.cache_limit_gb == 0.001
    assert options.kind == "a"


def test_flags_can_be_lists_and_switches():
    options = parse("--names", "x", "y", "--resume", "--no-strict", "--kind", "b", "--kinds", "b")
    assert options.names == ("x", "y")
    assert options.resume
    assert not options.strict
    assert (options.kind, options.kinds) == ("b", ("b",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stepz: 7", r"unknown options \['stepz'\]"),
        ("steps: many", "steps must be of type int, got 'many'"),
        ("steps: 1.5", "steps must be of type int"),
        ("steps: true", "steps must be of type int"),
        ("rate: .nan", "rate must be a finite number, got nan"),
        ("rate: -.inf", "rate must be a finite number, got -inf"),
        ("names: x", "names must be a list, each of type str"),
        ("kinds: [a, c]", "kinds must be one of a, b"),
        ("kind: c", "kind must be one of a, b"),
        ("[1, 2]", "options by name"),
        ("a: [", "is not YAML"),
        ("!!python/object/apply:os.getcwd []", "is not YAML"),
    ],
)
def test_a_wrong_file_is_a_config_error(tmp_path, text, message):
    file = tmp_path / "options.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        parse("--config", str(file))


def test_a_missing_file_and_an_unknown_preset_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.yaml cannot be read"):
        parse("--config", str(tmp_path / "nothing.yaml"))
    with pytest.raises(ConfigError, match=r"no preset 'huge'; it has .*quick"):
        parse("--preset", "huge")


def test_quick_and_a_preset_exclude_each_other():
    with pytest.raises(ConfigError, match="--quick is short for"):
        parse("--quick", "--preset", "small")


def test_options_become_plain_values():
    assert as_values(make_options(Options, {"names": ["x"]}))["names"] == ["x"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_preset_of_every_command_is_valid(name):
    command = find(name)
    if issubclass(command.options, CommonOptions | TrainingOptions):
        assert "quick" in preset_names(name)
    for preset in preset_names(name):
        make_options(command.options, read_preset(name, preset))


@pytest.mark.parametrize("name", [n for n in COMMANDS if n.startswith(("train", "evaluate"))])
def test_what_trains_or_evaluates_takes_data_seed_and_device(name):
    options = {entry.name for entry in fields(find(name).options)}
    assert {"data", "out", "seed", "device", "resume"} <= options


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("export", {"data", "seed", "device"}),
        ("cut-crops", {"device", "layout"}),
        ("train-detector", {"layout", "cache_limit_gb"}),
    ],
)
def test_what_a_command_would_ignore_is_no_option_of_it(name, without):
    assert not without & {entry.name for entry in fields(find(name).options)}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_every_command_says_what_it_means(name):
    for entry in fields(find(name).options):
        assert entry.metadata["help"], entry.name
