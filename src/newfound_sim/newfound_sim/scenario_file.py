# SPDX-License-Identifier: Apache-2.0
"""Scenario files: parse and validate YAML; an error names file, line and reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import shapely
import shapely.affinity
import yaml

from newfound_sim.camera import CAMERAS
from newfound_sim.errors import ScenarioError
from newfound_sim.lights import LIGHTINGS
from newfound_sim.objects import CLASSES, build
from newfound_sim.rooms import names
from newfound_sim.scenario import (
    CameraMove,
    LightChange,
    RenderSettings,
    RoomsScenario,
    Scenario,
    Stay,
    Visit,
    WorkbenchScenario,
)
from newfound_sim.workbench import BACKGROUNDS, TABLE, CameraPose, PlacedObject

MAX_BYTES = 1_000_000  # a scenario is written by hand; more is a mistaken path
_WHOLE, _REAL = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
MAX_FRAMES = 100_000
SETTINGS = ("rate", "size", "seed", "samples")
SAMPLES = {"workbench": 24, "rooms": 8}  # interiors have a stronger denoiser
LONGEST = 3600.0  # s
_BENCH_REQUIRED = ("duration", "camera", "background", "light")
_BENCH_OPTIONAL = ("view", "objects", "light_changes", "camera_moves")
_ROOMS_REQUIRED = ("building", "lighting", "visits")


def read(path: Path) -> Entry:
    """Parse a YAML file to nodes; no object is constructed from it."""
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
    """A value of a YAML file, with its line and name for error messages."""

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
        """A list of `count` numbers."""
        return tuple(item.number(least, most) for item in self.items(count, count))

    def choice(self, known: Iterable[str]) -> str:
        """One of the known names."""
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


Fields = dict[str, Entry]


def load_scenario(path: Path) -> Scenario:
    """Read and check a scenario file; raises ScenarioError."""
    document = read(path)
    kinds: dict[str, Callable[[Entry], Scenario]] = {"workbench": _workbench, "rooms": _rooms}
    everything = {"kind", *SETTINGS, *_BENCH_REQUIRED, *_BENCH_OPTIONAL, *_ROOMS_REQUIRED}
    kind = document.fields(["kind"], sorted(everything - {"kind"}))["kind"].choice(kinds)
    scenario = kinds[kind](document)
    if scenario.frames > MAX_FRAMES:
        document.refuse(f"{scenario.frames} frames are more than {MAX_FRAMES}: lower the rate")
    return scenario


def _workbench(document: Entry) -> WorkbenchScenario:
    fields = document.fields(["kind", *_BENCH_REQUIRED], [*SETTINGS, *_BENCH_OPTIONAL])
    duration = fields["duration"].number(0.1, LONGEST)
    return WorkbenchScenario(
        settings=_settings(fields, SAMPLES["workbench"]),
        duration=duration,
        camera=fields["camera"].choice(CAMERAS),
        background=fields["background"].choice(BACKGROUNDS),
        light=fields["light"].choice(LIGHTINGS),
        pose=_view(fields["view"]) if "view" in fields else CameraPose(),
        stays=_stays(fields, duration),
        changes=_changes(fields, duration),
        moves=_moves(fields, duration),
    )


def _rooms(document: Entry) -> RoomsScenario:
    fields = document.fields(["kind", *_ROOMS_REQUIRED], SETTINGS)
    settings = _settings(fields, SAMPLES["rooms"])
    visits = []
    for entry in fields["visits"].items(least=1):
        visit = entry.fields(["category", "seconds"], ["room"])
        category = visit["category"].choice(names.CATEGORIES)
        room = visit["room"].whole(0, 2**31 - 1) if "room" in visit else 0
        frames = round(visit["seconds"].number(0.1, LONGEST) * settings.rate)
        if frames < 2:
            visit["seconds"].refuse(f"at {settings.rate:g} Hz a visit of 2 frames takes longer")
        visits.append(Visit(category, room, frames))
    return RoomsScenario(
        settings,
        fields["building"].choice(names.BUILDINGS),
        fields["lighting"].choice(names.LIGHTINGS),
        tuple(visits),
    )


def _settings(fields: Fields, samples: int) -> RenderSettings:
    told: dict = {"samples": samples}
    if "rate" in fields:
        told["rate"] = fields["rate"].number(0.1, 120)
    if "size" in fields:
        sides = fields["size"].items(2, 2)
        told["width"], told["height"] = (side.whole(16, 4096) for side in sides)
    if "seed" in fields:
        told["seed"] = fields["seed"].whole(0, 2**31 - 1)
    if "samples" in fields:
        told["samples"] = fields["samples"].whole(1, 4096)
    return RenderSettings(**told)


def _stays(fields: Fields, duration: float) -> tuple[Stay, ...]:
    """The objects; two that touch each other at the same time are refused."""
    half_table = shapely.box(-TABLE[0] / 2, -TABLE[1] / 2, TABLE[0] / 2, TABLE[1] / 2)
    found: list[tuple[Stay, shapely.Geometry, Entry]] = []
    for entry in fields["objects"].items() if "objects" in fields else []:
        stay = _stay(entry, duration)
        outline = _outline(stay.thing)
        if not half_table.contains(outline):
            entry.refuse(f"the {stay.thing.label} does not lie on the table, {TABLE} metres wide")
        for other, taken, where in found:
            if stay.overlaps(other) and outline.intersects(taken):
                begin, end = max(stay.begin, other.begin), min(stay.end, other.end)
                entry.refuse(
                    f"the {stay.thing.label} overlaps the {other.thing.label} of line "
                    f"{where.line} from {begin:g} to {end:g} s"
                )
        found.append((stay, outline, entry))
    return tuple(stay for stay, _, _ in found)


def _stay(entry: Entry, duration: float) -> Stay:
    fields = entry.fields(["class", "at"], ["instance", "yaw", "from", "until"])
    label = fields["class"].choice(CLASSES)
    seed = fields["instance"].whole(0, 2**31 - 1) if "instance" in fields else 0
    x, y = fields["at"].numbers(2, -1, 1)
    yaw = fields["yaw"].number(-360, 360) if "yaw" in fields else 0.0
    begin = fields["from"].number(0, duration) if "from" in fields else 0.0
    end = fields["until"].number(0, duration) if "until" in fields else duration
    if end <= begin:
        fields["until" if "until" in fields else "from"].refuse(
            f"the {label} leaves at {end:g} s, which is not after it comes, {begin:g} s"
        )
    return Stay(PlacedObject(label, seed, x, y, yaw), begin, end)


def _outline(thing: PlacedObject) -> shapely.Geometry:
    shape = shapely.Polygon(build(thing.label, thing.seed).footprint())
    turned = shapely.affinity.rotate(shape, thing.yaw_degrees, origin=(0, 0))
    return shapely.affinity.translate(turned, thing.x, thing.y)


def _changes(fields: Fields, duration: float) -> tuple[LightChange, ...]:
    found: list[LightChange] = []
    for entry in fields["light_changes"].items() if "light_changes" in fields else []:
        change = entry.fields(["from", "to"], ["until"])
        begin, end = _span(change, duration, found[-1].end if found else 0.0)
        found.append(LightChange(begin, end, change["to"].choice(LIGHTINGS)))
    return tuple(found)


def _moves(fields: Fields, duration: float) -> tuple[CameraMove, ...]:
    found: list[CameraMove] = []
    for entry in fields["camera_moves"].items() if "camera_moves" in fields else []:
        move = entry.fields(["from", "eye", "target"], ["until"])
        begin, end = _span(move, duration, found[-1].end if found else 0.0)
        found.append(CameraMove(begin, end, _pose(entry, move["eye"], move["target"])))
    return tuple(found)


def _span(fields: Fields, duration: float, free_from: float) -> tuple[float, float]:
    """When a change begins and ends; without `until` it is sudden."""
    begin = fields["from"].number(0, duration)
    if begin < free_from:
        fields["from"].refuse(f"begins at {begin:g} s, before the last one ends, {free_from:g} s")
    end = fields["until"].number(0, duration) if "until" in fields else begin
    if end < begin:
        fields["until"].refuse(f"ends at {end:g} s, before it begins, {begin:g} s")
    return begin, end


def _view(entry: Entry) -> CameraPose:
    fields = entry.fields(["eye", "target"])
    return _pose(entry, fields["eye"], fields["target"])


def _pose(entry: Entry, eye: Entry, target: Entry) -> CameraPose:
    ex, ey, ez = eye.numbers(3, -3, 3)
    tx, ty, tz = target.numbers(3, -3, 3)
    if ez < 0.02:
        eye.refuse(f"the eye must be above the table, at z of 0.02 or more; found {ez:g}")
    if (ex - tx) ** 2 + (ey - ty) ** 2 < 1e-4:
        entry.refuse("the camera points straight down or up: move the eye beside the target")
    return CameraPose((ex, ey, ez), (tx, ty, tz))
