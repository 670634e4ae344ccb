# SPDX-License-Identifier: Apache-2.0
"""YAML read strictly: every value knows its line, so that a wrong one can be pointed at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import yaml

from newfound_sim.errors import ScenarioError

MAX_BYTES = 1_000_000  # a scenario is written by hand; more is a mistaken path
_WHOLE, _REAL = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"


def read(path: Path) -> Entry:
    """The document of a file. Nothing in it is executed or built: it is only composed."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise ScenarioError(f"{path} has {len(content)} bytes; a scenario has at most {MAX_BYTES}")
    try:
        node = yaml.compose(content.decode("utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ScenarioError(f"{path}:{line}: not UTF-8 text") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}" if mark else ""
        raise ScenarioError(f"{path}{where}: not YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ScenarioError(f"{path}: not YAML: {error}") from error
    if node is None:
        raise ScenarioError(f"{path}:1: the file is empty")
    return Entry(node, path, "the file")


class Entry:
    """A value of a YAML file, with its place and its name for error messages."""

    def __init__(self, node: yaml.Node, path: Path, name: str) -> None:
        self._node, self._path, self._name = node, path, name

    @property
    def line(self) -> int:
        """Where the value begins, from 1."""
        return int(self._node.start_mark.line) + 1

    def refuse(self, reason: str) -> NoReturn:
        """Raise the error that names file, line and reason."""
        raise ScenarioError(f"{self._path}:{self.line}: {reason}")

    def fields(self, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Entry]:
        """The entries of a mapping; a missing, unknown or repeated key is refused."""
        if not isinstance(self._node, yaml.MappingNode):
            self.refuse(f"{self._name} must be a mapping of keys to values, {self._found()}")
        found: dict[str, Entry] = {}
        known = [*required, *optional]
        for key, value in self._node.value:
            name = str(key.value)
            here = Entry(key, self._path, name)
            if name not in known:
                here.refuse(f"unknown key '{name}'; the keys here are: {', '.join(known)}")
            if name in found:
                here.refuse(f"'{name}' is given twice")
            found[name] = Entry(value, self._path, name)
        if missing := [name for name in required if name not in found]:
            self.refuse(f"{self._name} lacks the key '{missing[0]}'")
        return found

    def items(self, least: int = 0, most: int = 1000) -> list[Entry]:
        """The entries of a list."""
        if not isinstance(self._node, yaml.SequenceNode):
            self.refuse(f"{self._name} must be a list, {self._found()}")
        nodes = self._node.value
        if not least <= len(nodes) <= most:
            span = f"{least}" if least == most else f"{least} to {most}"
            self.refuse(f"{self._name} must have {span} entries, found {len(nodes)}")
        return [
            Entry(node, self._path, f"entry {number} of {self._name}")
            for number, node in enumerate(nodes, start=1)
        ]

    def number(self, least: float = -math.inf, most: float = math.inf) -> float:
        """A finite number in a range."""
        if self._tag() not in (_WHOLE, _REAL):
            self.refuse(f"{self._name} must be a number, {self._found()}")
        try:
            value = float(yaml.SafeLoader("").construct_object(self._node))
        except (ValueError, OverflowError):  # a tag that the text does not keep, 400 digits
            value = math.nan
        if not math.isfinite(value) or not least <= value <= most:
            self.refuse(f"{self._name} must be {_range(least, most)}, found {self._node.value}")
        return value

    def whole(self, least: int, most: int) -> int:
        """A whole number in a range."""
        if self._tag() != _WHOLE:
            self.refuse(f"{self._name} must be a whole number, {self._found()}")
        return int(self.number(least, most))

    def numbers(self, count: int, least: float, most: float) -> tuple[float, ...]:
        """A list of so many numbers."""
        return tuple(item.number(least, most) for item in self.items(count, count))

    def choice(self, known: Iterable[str]) -> str:
        """One of the known words."""
        names = list(known)
        if not isinstance(self._node, yaml.ScalarNode) or self._node.value not in names:
            self.refuse(f"{self._name} must be one of {', '.join(names)}; {self._found()}")
        return str(self._node.value)

    def _tag(self) -> str:
        return str(self._node.tag)

    def _found(self) -> str:
        if isinstance(self._node, yaml.ScalarNode):
            return f"found '{self._node.value}'" if self._node.value else "found nothing"
        return "found " + ("a list" if isinstance(self._node, yaml.SequenceNode) else "a mapping")


def _range(least: float, most: float) -> str:
    if math.isinf(least) and math.isinf(most):
        return "a finite number"
    if math.isinf(most):
        return f"at least {least:g}"
    return f"in {least:g} to {most:g}"
