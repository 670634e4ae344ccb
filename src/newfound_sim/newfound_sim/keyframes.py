# SPDX-License-Identifier: Apache-2.0
"""Keyframes of a scenario: plan which ones a clip needs, and render them.

Light adds up: an image in a mixture of two illuminations is the mixture of two renderings. So a
drift of any length costs two renderings, and a scene in which nothing moves costs one.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from newfound_core.storage import write_bytes
from newfound_sim.annotations import seen_objects
from newfound_sim.clip import SeenObject, objects_from_json
from newfound_sim.lights import named
from newfound_sim.production import millimetres
from newfound_sim.rendering import Frame, View
from newfound_sim.rooms.masks import RoomMasks
from newfound_sim.rooms.renderer import RoomScene, room_scene
from newfound_sim.rooms.room import Room, build_room, generator
from newfound_sim.rooms.viewpoints import view_from
from newfound_sim.rooms.walk import CAMERA_HEIGHT, PITCH, way_through
from newfound_sim.scenario import (
    BenchKeyframe,
    Keyframe,
    RoomKeyframe,
    RoomsScenario,
    Scenario,
    WorkbenchScenario,
)
from newfound_sim.workbench import BOUNCES, Bench

LARGEST_HALF = 65504.0  # of a float16


@dataclass(frozen=True)
class ClipImage:
    """One JPEG of a clip: numbers of keyframes with their weights, and which take it is."""

    mixture: tuple[tuple[int, float], ...]
    take: int  # images of the same mixture differ in the sensor's noise


@dataclass(frozen=True)
class ClipPlan:
    """What has to be rendered for a clip, and which image each frame shows."""

    keyframes: tuple[Keyframe, ...]
    images: tuple[ClipImage, ...]
    frames: tuple[int, ...]  # the number of the image that each frame shows

    @cached_property
    def shared(self) -> tuple[int, ...]:
        """Numbers of the keyframes that more than one image needs; kept while rendering."""
        uses = Counter(number for image in self.images for number, _ in image.mixture)
        return tuple(number for number, count in sorted(uses.items()) if count > 1)


def plan_clip(scenario: Scenario, takes: int) -> ClipPlan:
    """Render equal moments once; while nothing changes, `takes` images alternate."""
    keyframes: dict[Keyframe, int] = {}
    images: dict[ClipImage, int] = {}
    shown: Counter[tuple] = Counter()
    frames = []
    for frame in range(scenario.frames):
        mixture = tuple(
            (keyframes.setdefault(keyframe, len(keyframes)), weight)
            for keyframe, weight in scenario.keyframes_at(frame / scenario.settings.rate).items()
        )
        image = ClipImage(mixture, shown[mixture] % takes)
        shown[mixture] += 1
        frames.append(images.setdefault(image, len(images)))
    return ClipPlan(tuple(keyframes), tuple(images), tuple(frames))


@dataclass(frozen=True)
class LinearImage:
    """A rendered keyframe before the camera model: linear light, depth and ground truth."""

    light: np.ndarray  # [H, W, 3] float32, linear
    depth: np.ndarray  # [H, W] uint16, millimetres; 0 where there is nothing
    objects: tuple[SeenObject, ...]
    mask: np.ndarray | None = None  # [H, W] uint8, numbers of rooms.masks.CLASSES

    def save(self, path: Path) -> None:
        """Write it to one file, atomically."""
        content = io.BytesIO()
        objects = json.dumps([asdict(seen) for seen in self.objects]).encode()
        half = np.minimum(self.light, LARGEST_HALF).astype(np.float16)
        arrays = {"light": half, "depth": self.depth, "objects": np.frombuffer(objects, np.uint8)}
        if self.mask is not None:
            arrays["mask"] = self.mask
        np.savez(content, **arrays)
        write_bytes(path, content.getvalue())

    @staticmethod
    def load(path: Path) -> LinearImage:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as content:
            objects = objects_from_json(json.loads(content["objects"].tobytes()))
            light = content["light"].astype(np.float32)
            depth = content["depth"]
            mask = content["mask"] if "mask" in content.files else None
        return LinearImage(light, depth, objects, mask)


def render_keyframe(scenario: Scenario, keyframe: Keyframe, seed: int) -> LinearImage:
    """Render a keyframe of a scenario; the seed sets the renderer's noise."""
    if isinstance(scenario, RoomsScenario):
        assert isinstance(keyframe, RoomKeyframe)
        frame, mask = _render_room(scenario, keyframe, seed)
        return LinearImage(frame.rgb, millimetres(frame.depth), (), mask)
    assert isinstance(keyframe, BenchKeyframe)
    frame, objects = _render_bench(scenario, keyframe, seed)
    return LinearImage(frame.rgb, millimetres(frame.depth), objects)


def _render_bench(
    scenario: WorkbenchScenario, keyframe: BenchKeyframe, seed: int
) -> tuple[Frame, tuple[SeenObject, ...]]:
    settings = scenario.settings
    things = [scenario.stays[number - 1].thing for number in keyframe.objects]
    bench = Bench(tuple(things), named(keyframe.light), scenario.background, settings.seed)
    view = bench_view(scenario, keyframe)
    frame = bench.scene.render(view, samples=settings.samples, seed=seed, bounces=BOUNCES)
    parts = {place: thing.parts(place) for place, thing in enumerate(things, start=1)}
    # The bench numbers what lies on it now; a scenario's objects keep their number.
    objects = tuple(
        replace(seen, instance=keyframe.objects[seen.instance - 1])
        for seen in seen_objects(frame, view, parts)
    )
    return frame, objects


def _render_room(
    scenario: RoomsScenario, keyframe: RoomKeyframe, seed: int
) -> tuple[Frame, np.ndarray]:
    visit, settings = scenario.visits[keyframe.visit], scenario.settings
    room, scene, masks = _loaded_room(
        scenario.building, visit.category, visit.room, scenario.lighting
    )
    rng = generator(scenario.building, settings.seed, keyframe.visit)
    stand = way_through(room, rng, visit.frames)[keyframe.step]
    size, fov = (settings.width, settings.height), scenario.camera_model.fov_degrees
    view = view_from(stand, size, height=CAMERA_HEIGHT, pitch=PITCH, fov=fov)
    return scene.render(view, samples=settings.samples, seed=seed), masks.mask(view)


@lru_cache(maxsize=2)  # many views of one room follow each other
def _loaded_room(
    building: str, category: str, seed: int, light: str
) -> tuple[Room, RoomScene, RoomMasks]:
    room = build_room(building, category, seed)
    return room, room_scene(room, light), RoomMasks(room)


def bench_view(scenario: WorkbenchScenario, keyframe: BenchKeyframe) -> View:
    """The pinhole view of a keyframe."""
    settings = scenario.settings
    return keyframe.pose.view(scenario.camera_model, settings.width, settings.height)
