# SPDX-License-Identifier: Apache-2.0
"""Renders interiors quickly: light that has bounced often is given to the surfaces beforehand.

In a closed room most light arrives after many bounces, and following them with few samples is
noisy and slow. Here every surface glows faintly in its own colour, in place of the later
bounces; paths then need only direct light and one bounce. The glow is not sampled as a light
source, so it adds no noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from newfound_sim.lights import Light
from newfound_sim.materials import Colour, Material, bsdf, linear, rgb
from newfound_sim.rendering import Frame, Part, Scene, View, mitsuba
from newfound_sim.rooms.denoising import smooth_light
from newfound_sim.shading import corners, project_texture

DEPTH = 3  # direct light and one bounce


class RoomScene(Scene):
    """A lit room, loaded once, to be seen from many views."""

    def __init__(self, parts: Sequence[Part], lights: Sequence[Light], glow: Colour) -> None:
        described: dict[str, Any] = {"type": "scene"}
        for number, part in enumerate(parts):
            described[f"part{number:05d}"] = _shape(part, glow)
        for number, light in enumerate(lights):
            described[f"zlight{number:03d}"] = light.describe()
        self._scene = mitsuba().load_dict(described)

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
        # Colours of surfaces come from the same samples as the light: edges blend alike in both.
        path = {"type": "path", "max_depth": bounces}
        both = {"type": "aov", "aovs": "a:albedo,n:sh_normal", "path": path, "block_size": 32}
        drawn = self._trace(view, both, {"type": "independent"}, samples, seed)
        light, albedo, normal = drawn[..., :3], drawn[..., -6:-3], drawn[..., -3:]
        truth = {"type": "aov", "aovs": "p:position,s:shape_index", "block_size": 32}
        centred = {"type": "stratified", "jitter": False, "sample_count": 1}
        hit = self._trace(view, truth, centred, 1, 0)
        position, anything = hit[..., :3], np.rint(hit[..., 3]) > 0
        ahead = (position - np.asarray(view.eye, np.float32)) @ view.extrinsics[2, :3]
        depth = np.where(anything, ahead, np.inf).astype(np.float32)
        if denoise:
            light = smooth_light(light, albedo, normal, position)
        return Frame(light, depth, np.zeros(depth.shape, np.uint16), {})


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
