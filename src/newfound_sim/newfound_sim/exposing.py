# SPDX-License-Identifier: Apache-2.0
"""Exposures become negatives: linear light, depth and truth of one unchanging moment.

Light adds up: a picture in a mixture of two illuminations is the mixture of two pictures.
A drift of any length costs two negatives, and a scene in which nothing moves costs one.
"""

import io
import json
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from newfound_sim.illumination import named
from newfound_sim.production import write_whole
from newfound_sim.rendering import Frame, View
from newfound_sim.rooms.renderer import RoomScene
from newfound_sim.rooms.room import Room, build_room, generator
from newfound_sim.rooms.scene import room_scene
from newfound_sim.rooms.viewpoints import view_from
from newfound_sim.rooms.walk import CAMERA_HEIGHT, PITCH, way_through
from newfound_sim.scenario import (
    BenchExposure,
    RoomExposure,
    RoomsScenario,
    Scenario,
    WorkbenchScenario,
)
from newfound_sim.truth import SeenObject, objects_from_json
from newfound_sim.visibility import seen_objects
from newfound_sim.workbench import BOUNCES, Bench

LARGEST_HALF = 65504.0


@dataclass(frozen=True)
class Negative:
    """What was rendered of one exposure."""

    light: np.ndarray  # [H, W, 3] float32, linear
    depth: np.ndarray  # [H, W] uint16, millimetres; 0 where there is nothing
    objects: tuple[SeenObject, ...]

    def save(self, path: Path) -> None:
        """Write it as one whole file."""
        content = io.BytesIO()
        told = json.dumps([asdict(seen) for seen in self.objects]).encode()
        half = np.minimum(self.light, LARGEST_HALF).astype(np.float16)
        truth = np.frombuffer(told, np.uint8)
        np.savez(content, light=half, depth=self.depth, objects=truth)
        write_whole(path, content.getvalue())

    @staticmethod
    def load(path: Path) -> "Negative":
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as content:
            objects = objects_from_json(json.loads(content["objects"].tobytes()))
            light = content["light"].astype(np.float32)
            depth = content["depth"]
        return Negative(light, depth, objects)


def expose(scenario: Scenario, exposure: BenchExposure | RoomExposure, seed: int) -> Negative:
    """Render an exposure of a scenario; the seed sets the renderer's noise."""
    if isinstance(scenario, RoomsScenario):
        assert isinstance(exposure, RoomExposure)
        frame = _render_room(scenario, exposure, seed)
        return Negative(frame.rgb, millimetres(frame.depth), ())
    assert isinstance(exposure, BenchExposure)
    frame, objects = _render_bench(scenario, exposure, seed)
    return Negative(frame.rgb, millimetres(frame.depth), objects)


def _render_bench(
    scenario: WorkbenchScenario, exposure: BenchExposure, seed: int
) -> tuple[Frame, tuple[SeenObject, ...]]:
    things = [scenario.stays[number - 1].thing for number in exposure.objects]
    bench = Bench(tuple(things), named(exposure.light), scenario.background, scenario.filming.seed)
    view = bench_view(scenario, exposure)
    frame = bench.scene.render(view, samples=scenario.filming.samples, seed=seed, bounces=BOUNCES)
    parts = {place: thing.parts(place) for place, thing in enumerate(things, start=1)}
    # The bench counts what lies on it now; a scenario's objects keep their number.
    objects = tuple(
        replace(seen, instance=exposure.objects[seen.instance - 1])
        for seen in seen_objects(frame, view, parts)
    )
    return frame, objects


def _render_room(scenario: RoomsScenario, exposure: RoomExposure, seed: int) -> Frame:
    visit, filming = scenario.visits[exposure.visit], scenario.filming
    room, scene = _loaded_room(scenario.building, visit.category, visit.room, scenario.lighting)
    rng = generator(scenario.building, filming.seed, exposure.visit)
    stand = way_through(room, rng, visit.frames)[exposure.step]
    size, fov = (filming.width, filming.height), scenario.camera_model.fov_degrees
    view = view_from(stand, size, height=CAMERA_HEIGHT, pitch=PITCH, fov=fov)
    return scene.render(view, samples=filming.samples, seed=seed)


@lru_cache(maxsize=2)  # many views of one room follow each other
def _loaded_room(building: str, category: str, seed: int, light: str) -> tuple[Room, RoomScene]:
    room = build_room(building, category, seed)
    return room, room_scene(room, light)


def bench_view(scenario: WorkbenchScenario, exposure: BenchExposure) -> View:
    """The pinhole view of an exposure."""
    filming = scenario.filming
    return exposure.pose.view(scenario.camera_model, filming.width, filming.height)


def millimetres(depth: np.ndarray) -> np.ndarray:
    """Depth in metres as uint16 millimetres; 0 where it is infinite or too far."""
    scaled = np.rint(depth.astype(np.float64) * 1000)
    return np.where(scaled <= 65535, scaled, 0).astype(np.uint16)
