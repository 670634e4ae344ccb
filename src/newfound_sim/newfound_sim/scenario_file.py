# SPDX-License-Identifier: Apache-2.0
"""Scenario files: YAML in, a scenario out, or an error that names file, line and reason."""

from collections.abc import Callable
from pathlib import Path

import shapely
import shapely.affinity

from newfound_sim.backgrounds import BACKGROUNDS, TABLE
from newfound_sim.camera import CAMERAS
from newfound_sim.illumination import LIGHTINGS
from newfound_sim.objects import CLASSES, build
from newfound_sim.rooms import names
from newfound_sim.scenario import (
    CameraMove,
    Filming,
    LightChange,
    RoomsScenario,
    Scenario,
    Stay,
    Visit,
    WorkbenchScenario,
)
from newfound_sim.strict_yaml import Entry, read
from newfound_sim.workbench import CameraPose, PlacedObject

MAX_FRAMES = 100_000
FILMING = ("rate", "size", "seed", "samples")
SAMPLES = {"workbench": 24, "rooms": 8}  # interiors have a stronger denoiser
LONGEST = 3600.0  # s
Fields = dict[str, Entry]


def load_scenario(path: Path) -> Scenario:
    """Read and check a scenario file; raises ScenarioError."""
    document = read(path)
    kinds: dict[str, Callable[[Entry], Scenario]] = {"workbench": _workbench, "rooms": _rooms}
    everything = {"kind", *FILMING, *_BENCH_REQUIRED, *_BENCH_OPTIONAL, *_ROOMS_REQUIRED}
    kind = document.fields(["kind"], sorted(everything - {"kind"}))["kind"].choice(kinds)
    scenario = kinds[kind](document)
    if scenario.frames > MAX_FRAMES:
        document.refuse(f"{scenario.frames} frames are more than {MAX_FRAMES}: lower the rate")
    return scenario


_BENCH_REQUIRED = ("duration", "camera", "background", "light")
_BENCH_OPTIONAL = ("view", "objects", "light_changes", "camera_moves")


def _workbench(document: Entry) -> WorkbenchScenario:
    fields = document.fields(["kind", *_BENCH_REQUIRED], [*FILMING, *_BENCH_OPTIONAL])
    duration = fields["duration"].number(0.1, LONGEST)
    return WorkbenchScenario(
        filming=_filming(fields, SAMPLES["workbench"]),
        duration=duration,
        camera=fields["camera"].choice(CAMERAS),
        background=fields["background"].choice(BACKGROUNDS),
        light=fields["light"].choice(LIGHTINGS),
        pose=_view(fields["view"]) if "view" in fields else CameraPose(),
        stays=_stays(fields, duration),
        changes=_changes(fields, duration),
        moves=_moves(fields, duration),
    )


_ROOMS_REQUIRED = ("building", "lighting", "visits")


def _rooms(document: Entry) -> RoomsScenario:
    fields = document.fields(["kind", *_ROOMS_REQUIRED], FILMING)
    filming = _filming(fields, SAMPLES["rooms"])
    visits = []
    for entry in fields["visits"].items(least=1):
        visit = entry.fields(["category", "seconds"], ["room"])
        category = visit["category"].choice(names.CATEGORIES)
        room = visit["room"].whole(0, 2**31 - 1) if "room" in visit else 0
        frames = round(visit["seconds"].number(0.1, LONGEST) * filming.rate)
        if frames < 2:
            visit["seconds"].refuse(f"at {filming.rate:g} Hz a visit of 2 frames takes longer")
        visits.append(Visit(category, room, frames))
    return RoomsScenario(
        filming,
        fields["building"].choice(names.BUILDINGS),
        fields["lighting"].choice(names.LIGHTINGS),
        tuple(visits),
    )


def _filming(fields: Fields, samples: int) -> Filming:
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
    return Filming(**told)


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
        entry.refuse("the camera looks straight down or up: move the eye beside the target")
    return CameraPose((ex, ey, ez), (tx, ty, tz))
