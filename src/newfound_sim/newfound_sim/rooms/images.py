# SPDX-License-Identifier: Apache-2.0
"""Pictures a robot's camera takes of rooms."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from newfound_sim.camera import CameraModel, develop
from newfound_sim.errors import ScenarioError
from newfound_sim.rendering import Frame, View
from newfound_sim.rooms.names import check
from newfound_sim.rooms.renderer import RoomScene, room_scene
from newfound_sim.rooms.room import Room, build_room, generator
from newfound_sim.rooms.viewpoints import floor_map, random_view

SAMPLES = 8  # per pixel; with the denoiser, 4 are hardly worse and 16 hardly better
ROBOT_CAMERA = CameraModel(
    auto_exposure=0.8,
    contrast=0.2,
    vignetting=0.15,
    blur=0.0008,
    shot_noise=0.01,
    read_noise=0.004,
    jpeg_quality=92,
)


def room_image(
    building: str,
    lighting: str,
    category: str,
    seed: int,
    size: tuple[int, int] | int = 128,
    *,
    view: int = 0,
    samples: int = SAMPLES,
) -> Frame:
    """A picture of the room with this seed; `view` numbers the robot's stands in it.

    Size is (width, height), or one number for both. The same room and view can be seen under
    every lighting.
    """
    wide, high = (size, size) if isinstance(size, int) else size
    if min(wide, high) < 16:
        raise ScenarioError(f"a picture of {wide}x{high} is too small: use 16 pixels or more")
    room, scene = _loaded(building, category, seed, lighting)
    rng = generator(building, category, seed, "view", view)
    seen = random_view(room, floor_map(room), rng, (wide, high))
    return take(scene, seen, samples=samples, seed=int(rng.integers(2**31)))


def view_image(
    room: Room, lighting: str, view: View, *, samples: int = SAMPLES, seed: int = 0
) -> Frame:
    """A picture of a room from a given view, as from a walk."""
    _, scene = _loaded(room.building, room.category, room.seed, lighting)
    return take(scene, view, samples=samples, seed=seed)


def take(scene: RoomScene, view: View, *, samples: int, seed: int) -> Frame:
    """Render a view and develop it as the robot's camera does."""
    frame = scene.render(view, samples=samples, seed=seed)
    return replace(frame, rgb=develop(frame.rgb, ROBOT_CAMERA, seed))


@lru_cache(maxsize=2)  # several views of one room follow each other
def _loaded(building: str, category: str, seed: int, lighting: str) -> tuple[Room, RoomScene]:
    check("lighting", lighting)
    room = build_room(building, category, seed)
    return room, room_scene(room, lighting)
