# SPDX-License-Identifier: Apache-2.0
"""Fast rendering of interiors: indirect light is precomputed as emission of the surfaces.

In a closed room most light arrives after many bounces, and following them with few samples is
noisy and slow. Here every surface glows faintly in its own colour, in place of the later
bounces; paths then need only direct light and one bounce. The glow is not sampled as a light
source, so it adds no noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import trimesh

from newfound_sim.denoising import smooth_light
from newfound_sim.errors import SimulationError
from newfound_sim.lights import Light
from newfound_sim.materials import Colour, Material, bsdf, linear, rgb
from newfound_sim.meshes import corners, project_texture
from newfound_sim.rendering import Frame, Part, Scene, View, mitsuba
from newfound_sim.rooms.room import Illumination, Room, illuminate
from newfound_sim.rooms.shapes import Solid

DEPTH = 3  # direct light and one bounce
COLOUR_SAMPLES = 16
NEAR_CLIP = 0.01  # metres before the eye where the renderer's rays begin


class RoomScene(Scene):
    """A lit room, loaded once, to be seen from many views."""

    def __init__(self, parts: Sequence[Part], lights: Sequence[Light], glow: Colour) -> None:
        if not lights and not any(part.material.kind == "emitter" for part in parts):
            raise SimulationError("a room needs a light: a lamp, a window or a sun, got none")
        described: dict[str, Any] = {"type": "scene"}
        for number, part in enumerate(parts):
            described[f"part{number:05d}"] = _shape(part, glow)
        for number, light in enumerate(lights):
            described[f"zlight{number:03d}"] = light.describe()
        self._scene = mitsuba().load_dict(described)
        self._glow = np.asarray(glow, np.float32)

    def render(
        self,
        view: View,
        *,
        samples: int = 8,
        seed: int = 0,
        bounces: int = DEPTH,
        denoise: bool = True,
    ) -> Frame:
        """Path-trace the view; `samples` per pixel set noise and time."""
        path = {"type": "path", "max_depth": bounces, "block_size": 32}
        light = self._trace(view, path, {"type": "independent"}, samples, seed)[..., :3]
        position, depth = self._positions(view)
        if denoise:
            # Without bounces only the glow is seen: every surface's own colour, at little cost.
            still = {"type": "path", "max_depth": 1, "block_size": 32}
            glowing = self._trace(view, still, {"type": "independent"}, COLOUR_SAMPLES, seed)
            light = smooth_light(light, glowing[..., :3] / self._glow, position)
        return Frame(light, depth, np.zeros(depth.shape, np.uint16), {})

    def _positions(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        """World point and depth at each pixel's centre; the depth is inf where nothing is."""
        centred = {"type": "stratified", "jitter": False, "sample_count": 1}
        reach = self._trace(view, {"type": "depth", "block_size": 32}, centred, 1, 0)[..., 0]
        rows, columns = np.mgrid[: view.height, : view.width]
        pixels = np.stack([columns, rows, np.ones_like(rows)], axis=2)
        rays = pixels @ np.linalg.inv(view.intrinsics).T  # optical frame, unit depth
        depth = NEAR_CLIP + reach / np.linalg.norm(rays, axis=2)
        motion = view.extrinsics
        world = (rays * depth[..., None] - motion[:3, 3]) @ motion[:3, :3]
        seen = np.where(reach > 0, depth, np.inf)
        return world.astype(np.float32), seen.astype(np.float32)


def _shape(part: Part, glow: Colour) -> Any:
    mi = mitsuba()
    material = part.material
    properties = mi.Properties()
    properties["bsdf"] = mi.load_dict(bsdf(material))
    emitter = _emitter(material, glow)
    if emitter:
        properties["emitter"] = mi.load_dict(emitter)
    mesh = corners(part.mesh)
    placed = mesh.moved(part.pose)
    count = len(placed.positions)
    textured = material.texture is not None
    shape = mi.Mesh(
        "part",
        count,
        count // 3,
        has_vertex_normals=True,
        has_vertex_texcoords=textured,
        props=properties,
    )
    content = mi.traverse(shape)
    content["vertex_positions"] = placed.positions.astype(np.float32).ravel()
    content["vertex_normals"] = placed.normals.astype(np.float32).ravel()
    content["faces"] = np.arange(count, dtype=np.uint32)
    if material.texture is not None:
        coordinates = project_texture(mesh, material.texture.repeat)
        content["vertex_texcoords"] = coordinates.astype(np.float32).ravel()
    content.update()
    return shape


def _emitter(material: Material, glow: Colour) -> dict[str, Any] | None:
    """The light of a lamp, or the glow that stands for later bounces; mirrors have none."""
    if material.kind == "emitter":
        radiance = linear(material.colour) * material.radiance
        return {"type": "area", "radiance": rgb(radiance)}
    if material.kind in ("glass", "metal"):
        return None
    faint = {"type": "area", "sampling_weight": 0.0}
    if material.texture is None:
        return faint | {"radiance": rgb(linear(material.colour) * glow)}
    picture = (linear(material.texture.image / 255.0) * glow).astype(np.float32)
    bitmap = mitsuba().Bitmap(np.ascontiguousarray(picture))
    return faint | {"radiance": {"type": "bitmap", "bitmap": bitmap, "raw": True}}


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
