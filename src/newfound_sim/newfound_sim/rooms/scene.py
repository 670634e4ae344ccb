# SPDX-License-Identifier: Apache-2.0
"""A lit room as parts for the renderer: one mesh per finish, pictures on their own."""

from __future__ import annotations

import numpy as np
import trimesh

from newfound_sim.materials import Material
from newfound_sim.rendering import Part
from newfound_sim.rooms.lighting import Illumination, illuminate
from newfound_sim.rooms.renderer import RoomScene
from newfound_sim.rooms.room import Room
from newfound_sim.rooms.shapes import Solid


def room_scene(room: Room, lighting: str) -> RoomScene:
    """Load a room into the renderer."""
    light = illuminate(room, lighting)
    return RoomScene(room_parts(room, light), light.lights, light.glow)


def room_parts(room: Room, light: Illumination) -> list[Part]:
    """The parts of a lit room."""
    solids = [*room.shell, *light.panes]
    for placed in room.furniture:
        solids += placed.solids()
    by_finish: dict[int, tuple[Material, list[Solid]]] = {}
    parts = []
    for solid in solids:
        finish = light.lamp if solid.lamp and light.lamp is not None else solid.finish
        if solid.is_picture:
            parts.append(_picture(solid))
        else:
            by_finish.setdefault(id(finish), (finish, []))[1].append(solid)
    parts += [_merged(group, finish) for finish, group in by_finish.values()]
    return parts


def _merged(solids: list[Solid], finish: Material) -> Part:
    offsets = np.cumsum([0, *(len(solid.vertices) for solid in solids[:-1])])
    vertices = np.concatenate([solid.vertices for solid in solids])
    faces = np.concatenate(
        [solid.faces + offset for solid, offset in zip(solids, offsets, strict=True)]
    )
    return Part(trimesh.Trimesh(vertices, faces, process=False), finish)


def _picture(solid: Solid) -> Part:
    """Move a picture to its own frame, where texture coordinates begin at its lower left."""
    origin, right, _, up = solid.vertices
    w, h = float(np.linalg.norm(right - origin)), float(np.linalg.norm(up - origin))
    pose = np.eye(4)
    pose[:3, 0] = (right - origin) / w
    pose[:3, 2] = (up - origin) / h
    pose[:3, 1] = np.cross(pose[:3, 2], pose[:3, 0])
    pose[:3, 3] = origin
    corners = np.array([[0, 0, 0], [w, 0, 0], [w, 0, h], [0, 0, h]])
    return Part(trimesh.Trimesh(corners, solid.faces, process=False), solid.finish, pose=pose)
