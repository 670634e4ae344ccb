# SPDX-License-Identifier: Apache-2.0
"""Options of a command: one dataclass declares them all, with default and meaning.

Where a value comes from, the later ones winning:

    default in the dataclass < preset < --config FILE < command line
"""

import argparse
import dataclasses
import math
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from newfound_core.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """PyYAML follows YAML 1.1, to which 1e-3 is a text: only 1.0e-3 is a number there."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def read_values(text: str) -> Any:
    """Parse a YAML text into plain values; a yaml.YAMLError if it is not YAML."""
    return yaml.load(text, Loader=_Loader)  # a SafeLoader: nothing is constructed


T = TypeVar("T")


def option(default: Any, meaning: str, *, required: bool = False) -> Any:
    """A field of an options class: its default and the sentence that `--help` shows.

    A required one must not stay empty, wherever its value comes from.
    """
    if isinstance(default, list | dict):
        raise TypeError("give tuples as defaults, they cannot change")
    meaning += " (required)" if required else ""
    return field(default=default, metadata={"help": meaning, "required": required})


@dataclass(frozen=True)
class OutputOptions:
    """The options that every command has."""

    out: str = option("", "folder for the results", required=True)
    resume: bool = option(False, "go on where an interrupted run in --out stopped")


@dataclass(frozen=True)
class RunOptions(OutputOptions):
    """The options of every command that trains or evaluates."""

    seed: int = option(0, "everything random follows from it")
    device: str = option("cpu", "cpu, cuda, cuda:1, …; never chosen silently")


@dataclass(frozen=True)
class CommonOptions(RunOptions):
    """The options of every command that works on a set of labelled images."""

    data: str = option("", "folder with the images", required=True)
    layout: str = option("tree", "how the images lie there; see docs/training.md")
    strict: bool = option(False, "stop at a corrupt image instead of leaving it out")
    cache_limit_gb: float = option(20.0, "decoded images are kept on disk up to this size")


def build_parser(
    name: str, options: type, description: str, epilog: str
) -> argparse.ArgumentParser:
    """A parser with one flag for each field; absent flags stay absent from the result."""
    parser = argparse.ArgumentParser(
        prog=name,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", help="YAML with options by name")
    parser.add_argument("--preset", help="a named set of options (listed below)")
    parser.add_argument("--quick", action="store_true", help="short for --preset quick")
    hints = get_type_hints(options)
    for entry in fields(options):
        flag = "--" + entry.name.replace("_", "-")
        text = entry.metadata.get("help", "")
        if not entry.metadata.get("required"):
            text += f" (default: {_shown(entry.default)})"
        parser.add_argument(flag, help=text.replace("%", "%%"), **_argument(hints[entry.name]))
    return parser


def parse_options(
    options: type[T], command: str, parser: argparse.ArgumentParser, arguments: Sequence[str]
) -> T:
    """The options that a command line asks for, from all places they may come from."""
    given = vars(parser.parse_args(arguments))
    preset, quick = given.pop("preset", None), given.pop("quick", False)
    config = given.pop("config", None)
    if preset and quick:
        raise ConfigError(f"--quick is short for --preset quick, but --preset {preset} is given")
    values: dict[str, Any] = {}
    if name := preset or ("quick" if quick else None):
        values |= read_preset(command, name)
    if config:
        values |= read_yaml(Path(config))
    return make_options(options, values | given)


def require(options: Any) -> None:
    """A ConfigError for a required option that has no value."""
    for entry in fields(options):
        if entry.metadata.get("required") and not getattr(options, entry.name):
            raise ConfigError(f"--{entry.name.replace('_', '-')} is required")


def make_options(options: type[T], values: Mapping[str, Any]) -> T:
    """An options object from plain values; unknown names and wrong types are ConfigErrors."""
    hints = get_type_hints(options)
    known = {entry.name for entry in fields(options)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - known)
    if unknown:
        raise ConfigError(f"unknown options {unknown}; known are {', '.join(sorted(known))}")
    return options(**{name: _checked(name, hints[name], v) for name, v in values.items()})


def preset_names(command: str) -> list[str]:
    """The presets of a command."""
    folder = resources.files("newfound_training") / "presets" / command.replace("-", "_")
    if not folder.is_dir():
        return []
    return sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name[0] != ".")


def read_preset(command: str, name: str) -> dict[str, Any]:
    """The options of a preset."""
    known = preset_names(command)
    if name not in known:
        raise ConfigError(f"{command} has no preset {name!r}; it has {', '.join(known) or 'none'}")
    folder = resources.files("newfound_training") / "presets" / command.replace("-", "_")
    return _parse(str(folder / f"{name}.yaml"), (folder / f"{name}.yaml").read_text("utf-8"))


def read_yaml(path: Path) -> dict[str, Any]:
    """The options in a YAML file."""
    try:
        return _parse(str(path), path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _parse(where: str, text: str) -> dict[str, Any]:
    try:
        values = read_values(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is not YAML: {error}") from error
    values = {} if values is None else values
    if not isinstance(values, dict):
        raise ConfigError(f"{where} must hold options by name, got a {type(values).__name__}")
    return {str(name).replace("-", "_"): value for name, value in values.items()}


def as_values(options: Any) -> dict[str, Any]:
    """The options as plain values for JSON."""
    values = dataclasses.asdict(options)
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def _argument(hint: Any) -> dict[str, Any]:
    """Keyword arguments of argparse for a field of a type."""
    hint = _without_none(hint)
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction}
    if get_origin(hint) is tuple:
        several = _argument(get_args(hint)[0]) | {"nargs": "*"}
        return several if "choices" in several else several | {"metavar": "VALUE"}
    if get_origin(hint) is Literal:
        return {"choices": get_args(hint)}
    return {"type": hint, "metavar": hint.__name__.upper()}


def _checked(name: str, hint: Any, value: Any) -> Any:
    """The value as its field's type, if nothing is lost."""
    if value is None and type(None) in get_args(hint):
        return None
    hint = _without_none(hint)
    wrong = ConfigError(f"{name} must be {_type_name(hint)}, got {value!r}")
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise wrong
        return tuple(_checked(name, get_args(hint)[0], item) for item in value)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise wrong
        return value
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is not hint:
        raise wrong
    if hint is float and not math.isfinite(value):
        raise ConfigError(f"{name} must be a finite number, got {value}")
    return value


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        return next(kind for kind in get_args(hint) if kind is not type(None))
    return hint


def _type_name(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if get_origin(hint) is tuple:
        return f"a list, each {_type_name(get_args(hint)[0])}"
    return f"of type {hint.__name__}"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value in ("", None) else str(value)
