# SPDX-License-Identifier: Apache-2.0
"""Path tracing with Mitsuba 3: a scene and a view give linear light, depth and instance masks.

World coordinates are metres with z up. The same scene, view, samples and seed give the same
pixels in every process and with any number of threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import trimesh
from scipy.spatial.transform import Rotation

from newfound_sim.denoising import denoise as remove_noise
from newfound_sim.errors import ScenarioError, SimulationError
from newfound_sim.lights import Light, Point
from newfound_sim.materials import Material, bsdf, linear, rgb
from newfound_sim.meshes import corners, project_texture

BACKGROUND = 0  # the instance number of all that has no label


@dataclass(frozen=True, eq=False)
class Part:
    """A piece of one material. Parts with the same instance number are one thing."""

    mesh: trimesh.Trimesh
    material: Material
    instance: int = BACKGROUND
    label: str | None = None
    pose: np.ndarray = field(default_factory=lambda: np.eye(4))  # where the mesh stands, 4x4


@dataclass(frozen=True)
class View:
    """A pinhole camera: square pixels, the horizontal field of view in degrees."""

    eye: Point
    target: Point
    width: int = 320
    height: int = 240
    fov_degrees: float = 60.0
    up: Point = (0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        forward = np.subtract(self.target, self.eye)
        if np.linalg.norm(np.cross(forward, self.up)) < 1e-9:
            raise ScenarioError(
                f"the view from {self.eye} to {self.target} has no upright picture with up = "
                f"{self.up}: move the eye sideways or choose another up"
            )

    @property
    def intrinsics(self) -> np.ndarray:
        """The 3x3 matrix K of ROS: pixel (0, 0) is the centre of the first pixel."""
        focal = 0.5 * self.width / np.tan(np.radians(self.fov_degrees) / 2)
        return np.array(
            [[focal, 0, (self.width - 1) / 2], [0, focal, (self.height - 1) / 2], [0, 0, 1]]
        )

    @property
    def extrinsics(self) -> np.ndarray:
        """The 4x4 motion from world to the optical frame of ROS: x right, y down, z forward."""
        forward = _unit(np.subtract(self.target, self.eye))
        right = _unit(np.cross(forward, self.up))
        turn = np.stack([right, np.cross(forward, right), forward])
        motion = np.eye(4)
        motion[:3, :3], motion[:3, 3] = turn, -turn @ np.asarray(self.eye, float)
        return motion

    @property
    def pose(self) -> tuple[float, ...]:
        """Of the optical frame in the world: place and quaternion, x y z, x y z w."""
        turn = Rotation.from_matrix(self.extrinsics[:3, :3].T)
        return tuple(round(float(v), 7) + 0.0 for v in (*self.eye, *turn.as_quat(canonical=True)))

    def project(self, points: np.ndarray) -> np.ndarray:
        """Pixel coordinates [N, 2] of world points [N, 3] in front of the camera."""
        optical = np.asarray(points, float) @ self.extrinsics[:3, :3].T + self.extrinsics[:3, 3]
        pixels = optical @ self.intrinsics.T
        return pixels[:, :2] / pixels[:, 2:]


@dataclass(frozen=True, eq=False)
class Frame:
    """A rendered image with its ground truth."""

    rgb: np.ndarray  # [H, W, 3] float32 linear light as rendered; uint8 sRGB once developed
    depth: np.ndarray  # [H, W] float32, metres along the optical axis; inf where nothing is
    instances: np.ndarray  # [H, W] uint16, 0 is background
    labels: dict[int, str]  # of every labelled instance in the scene, seen or not

    def masks(self) -> dict[int, np.ndarray]:
        """The mask [H, W] of each labelled instance that is seen."""
        seen = np.unique(self.instances)
        return {i: self.instances == i for i in self.labels if i in seen}

    def boxes(self) -> dict[int, tuple[int, int, int, int]]:
        """The box (left, top, right, bottom) of each labelled instance that is seen.

        Right and bottom are exclusive: a box one pixel wide has right = left + 1.
        """
        found = {}
        for instance, mask in self.masks().items():
            rows, columns = np.nonzero(mask)
            left, right = int(columns.min()), int(columns.max()) + 1
            found[instance] = (left, int(rows.min()), right, int(rows.max()) + 1)
        return found


class Scene:
    """Parts and lights loaded once, to be seen from many views."""

    def __init__(self, parts: Sequence[Part], lights: Sequence[Light]) -> None:
        if not parts:
            raise SimulationError("a scene needs at least one part, got none")
        described: dict[str, Any] = {"type": "scene"}
        # Shapes are numbered by Mitsuba in the order of this dictionary, from 1.
        for number, part in enumerate(parts):
            described[f"part{number:05d}"] = _shape(part)
        for number, light in enumerate(lights):
            described[f"zlight{number:03d}"] = light.describe()
        self._scene = mitsuba().load_dict(described)
        instances = [BACKGROUND, *(part.instance for part in parts)]
        instances += [BACKGROUND] * (len(self._scene.shapes()) + 1 - len(instances))
        self._instances = np.array(instances, np.uint16)
        # Light passes four sheets of glass on its way through a cup and on to the table.
        self._extra_bounces = 5 if any(p.material.kind == "glass" for p in parts) else 0
        self._labels = {p.instance: p.label for p in parts if p.label is not None}

    def render(
        self,
        view: View,
        *,
        samples: int = 16,
        seed: int = 0,
        bounces: int = 4,
        denoise: bool = True,
    ) -> Frame:
        """Path-trace the view; `samples` per pixel set noise and time."""
        path = {"type": "path", "max_depth": bounces + self._extra_bounces, "block_size": 32}
        rgb = self._trace(view, path, {"type": "independent"}, samples, seed)[..., :3]
        # One ray through each pixel's centre: masks and depth are exact, not blended.
        truth = {"type": "aov", "aovs": "p:position,n:sh_normal,s:shape_index", "block_size": 32}
        centred = {"type": "stratified", "jitter": False, "sample_count": 1}
        hit = self._trace(view, truth, centred, 1, 0)
        shapes = np.rint(hit[..., 6]).astype(np.int64)
        position = hit[..., :3].astype(float) - np.asarray(view.eye)
        depth = np.where(shapes > 0, position @ view.extrinsics[2, :3], np.inf)
        if denoise:
            rgb = remove_noise(rgb, hit[..., 3:6], shapes.astype(np.float32))
        return Frame(rgb, depth.astype(np.float32), self._instances[shapes], dict(self._labels))

    def instances(self, view: View) -> np.ndarray:
        """The instance number at each pixel's centre alone, [H, W] uint16."""
        truth = {"type": "aov", "aovs": "s:shape_index", "block_size": 32}
        centred = {"type": "stratified", "jitter": False, "sample_count": 1}
        hit = self._trace(view, truth, centred, 1, 0)
        return self._instances[np.rint(hit[..., 0]).astype(np.int64)]

    def _trace(
        self, view: View, integrator: dict, sampler: dict, samples: int, seed: int
    ) -> np.ndarray:
        mi = mitsuba()
        picture = mi.render(
            self._scene,
            sensor=mi.load_dict(_sensor(view, sampler)),
            integrator=mi.load_dict(integrator),
            spp=samples,
            seed=seed % 2**31,
        )
        return np.array(picture, dtype=np.float32)


def render(
    parts: Sequence[Part],
    lights: Sequence[Light],
    view: View,
    *,
    samples: int = 16,
    seed: int = 0,
    denoise: bool = True,
) -> Frame:
    """Render one view of a scene that is not needed again."""
    return Scene(parts, lights).render(view, samples=samples, seed=seed, denoise=denoise)


def use_threads(count: int) -> None:
    """Limit the renderer's threads: one, when whole pictures are made in parallel."""
    mitsuba()
    import drjit

    drjit.set_thread_count(count)


@cache
def mitsuba() -> Any:
    """Mitsuba with its variant set; imported late because it is slow to load."""
    import mitsuba as mi

    mi.set_variant("scalar_rgb")
    mi.set_log_level(mi.LogLevel.Error)
    return mi


def _shape(part: Part) -> Any:
    mi = mitsuba()
    mesh = corners(part.mesh)
    texture = part.material.texture
    properties = mi.Properties()
    properties["bsdf"] = mi.load_dict(bsdf(part.material))
    if part.material.kind == "emitter":
        radiance = linear(part.material.colour) * part.material.radiance
        properties["emitter"] = mi.load_dict({"type": "area", "radiance": rgb(radiance)})
    placed = mesh.moved(part.pose)
    count = len(placed.positions)
    shape = mi.Mesh(
        part.label or "part",
        count,
        count // 3,
        has_vertex_normals=True,
        has_vertex_texcoords=texture is not None,
        props=properties,
    )
    content = mi.traverse(shape)
    content["vertex_positions"] = placed.positions.astype(np.float32).ravel()
    content["vertex_normals"] = placed.normals.astype(np.float32).ravel()
    content["faces"] = np.arange(count, dtype=np.uint32)
    if texture is not None:
        coordinates = project_texture(mesh, texture.repeat)
        content["vertex_texcoords"] = coordinates.astype(np.float32).ravel()
    content.update()
    return shape


def _sensor(view: View, sampler: dict) -> dict[str, Any]:
    look = (
        mitsuba()
        .ScalarTransform4f()
        .look_at(origin=list(view.eye), target=list(view.target), up=list(view.up))
    )
    # Box filter: no pixel receives light from two blocks, so their order cannot matter.
    film = {
        "type": "hdrfilm",
        "width": view.width,
        "height": view.height,
        "pixel_format": "rgb",
        "component_format": "float32",
        "rfilter": {"type": "box"},
    }
    return {
        "type": "perspective",
        "fov": view.fov_degrees,
        "fov_axis": "x",
        "near_clip": 0.01,
        "to_world": look,
        "film": film,
        "sampler": sampler,
    }


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)
