# SPDX-License-Identifier: Apache-2.0
"""A workbench with objects on it, in the twelve domains of the thesis or any light between."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np

from newfound_sim.backgrounds import BACKGROUNDS, table
from newfound_sim.camera import CAMERAS, CameraModel, develop
from newfound_sim.errors import ScenarioError
from newfound_sim.illumination import LIGHTINGS, Lighting, named
from newfound_sim.lights import Point
from newfound_sim.objects import build
from newfound_sim.rendering import Frame, Part, Scene, View

DEFAULT_SAMPLES = 12  # with the denoiser, the fewest that look like a camera's noise
BOUNCES = 3


@dataclass(frozen=True)
class Domain:
    """One of the twelve conditions: an illumination, a camera and a background."""

    illumination: str
    camera: str
    background: str

    @property
    def name(self) -> str:
        """As folders are called: artificial_kinect_white."""
        return f"{self.illumination}_{self.camera}_{self.background}"

    def changes(self, other: "Domain") -> int:
        """How many of the three conditions differ, 0 to 3."""
        mine = (self.illumination, self.camera, self.background)
        return sum(
            a != b
            for a, b in zip(
                mine, (other.illumination, other.camera, other.background), strict=True
            )
        )


DOMAINS: dict[str, Domain] = {
    domain.name: domain
    for domain in (Domain(*conditions) for conditions in product(LIGHTINGS, CAMERAS, BACKGROUNDS))
}


@dataclass(frozen=True)
class PlacedObject:
    """An object on the table: which instance, where its weight rests, how it is turned."""

    label: str
    seed: int
    x: float = 0.0
    y: float = 0.0
    yaw_degrees: float = 0.0

    def pose(self) -> np.ndarray:
        """The 4x4 motion from the object's rest pose to its place."""
        c, s = np.cos(np.radians(self.yaw_degrees)), np.sin(np.radians(self.yaw_degrees))
        return np.array([[c, -s, 0, self.x], [s, c, 0, self.y], [0, 0, 1, 0], [0, 0, 0, 1.0]])

    def parts(self, instance: int) -> list[Part]:
        """What to render, with an instance number for the masks."""
        pose = self.pose()
        model = build(self.label, self.seed)
        return [Part(p.mesh, p.material, instance, self.label, pose) for p in model.pieces]


@dataclass(frozen=True)
class CameraPose:
    """Where the camera is and what it looks at; the table's top centre is the origin."""

    eye: Point = (0.0, -0.45, 0.5)
    target: Point = (0.0, 0.03, 0.0)

    def view(self, camera: CameraModel, width: int, height: int) -> View:
        """The pinhole view of a camera at this pose."""
        return View(self.eye, self.target, width, height, camera.fov_degrees)


@dataclass(frozen=True)
class Bench:
    """A complete scene: the objects get instance numbers 1, 2, … in their order."""

    objects: tuple[PlacedObject, ...]
    lighting: Lighting = field(default_factory=lambda: named("artificial"))
    background: str = "white"
    background_seed: int = 0

    @cached_property
    def scene(self) -> Scene:
        """The scene, loaded once for all views of this bench."""
        parts = list(table(self.background, self.background_seed))
        for number, thing in enumerate(self.objects, start=1):
            parts += thing.parts(number)
        return Scene(parts, self.lighting.lights())


def render_bench(
    bench: Bench,
    camera: str | CameraModel = "webcam",
    *,
    pose: CameraPose | None = None,
    width: int = 320,
    height: int = 240,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
) -> Frame:
    """One picture of a bench as a camera delivers it: uint8 sRGB with depth, masks and labels."""
    model = camera_model(camera) if isinstance(camera, str) else camera
    view = (pose or CameraPose()).view(model, width, height)
    linear = bench.scene.render(view, samples=samples, seed=seed, bounces=BOUNCES)
    return replace(linear, rgb=develop(linear.rgb, model, seed))


def camera_model(name: str) -> CameraModel:
    """One of the known cameras."""
    if name not in CAMERAS:
        raise ScenarioError(f"unknown camera '{name}'; the cameras are: {', '.join(CAMERAS)}")
    return CAMERAS[name]


def find_domains(names: Sequence[str]) -> list[Domain]:
    """The domains of these names, in order; `all` names the twelve."""
    wanted = list(DOMAINS) if list(names) == ["all"] else list(names)
    for name in wanted:
        if name not in DOMAINS:
            raise ScenarioError(f"unknown domain '{name}'; the domains are: {', '.join(DOMAINS)}")
    return [DOMAINS[name] for name in wanted]
