# SPDX-License-Identifier: Apache-2.0
"""A workbench with objects, in the twelve domains of the thesis or any light in between."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product

import numpy as np

from newfound_sim.camera import CAMERAS, CameraModel, develop
from newfound_sim.errors import ScenarioError
from newfound_sim.lights import LIGHTINGS, Lighting, Point, named
from newfound_sim.materials import Material, Texture, speckle, wood
from newfound_sim.meshes import block, moved
from newfound_sim.objects import build
from newfound_sim.objects.palette import near
from newfound_sim.rendering import Frame, Part, Scene, View

BACKGROUNDS = ("white", "brown")
TABLE = (1.8, 1.4)  # metres
_TOP = moved(block((*TABLE, 0.04), 0.004), z=-0.02)
_FLOOR = moved(block((8, 8, 0.02)), z=-0.78)
_WALL = moved(block((8, 0.02, 4)), y=2.2, z=1.0)
DEFAULT_SAMPLES = 12  # with the denoiser, the fewest that look like a camera's noise
BOUNCES = 3


@lru_cache(maxsize=32)
def table(background: str, seed: int = 0) -> tuple[Part, ...]:
    """The table top at z = 0, white laminate or brown wood, with a floor and a wall behind.

    Both are matt: a sheen on the table costs a third of the rendering time and is hardly seen.
    """
    if background not in BACKGROUNDS:
        raise ScenarioError(
            f"unknown background '{background}'; the backgrounds are: {', '.join(BACKGROUNDS)}"
        )
    rng = np.random.default_rng([seed, BACKGROUNDS.index(background)])
    top = _laminate(rng) if background == "white" else _wood(rng)
    return (
        Part(_TOP, top),
        Part(_FLOOR, Material("diffuse", near(rng, (0.42, 0.4, 0.38)))),
        Part(_WALL, Material("diffuse", near(rng, (0.72, 0.71, 0.68)))),
    )


def _laminate(rng: np.random.Generator) -> Material:
    picture = speckle(rng, near(rng, (0.9, 0.9, 0.88), 0.03), 0.03, 256)
    return Material("diffuse", texture=Texture(picture, 0.6))


def _wood(rng: np.random.Generator) -> Material:
    light = near(rng, (0.58, 0.39, 0.23), 0.05)
    dark = near(rng, (0.38, 0.23, 0.12), 0.04)
    rings = float(rng.integers(14, 24))
    return Material("diffuse", texture=Texture(wood(rng, light, dark, 512, rings), 0.7))


@dataclass(frozen=True)
class Domain:
    """One of the twelve conditions: an illumination, a camera and a background."""

    illumination: str
    camera: str
    background: str

    @property
    def name(self) -> str:
        """Name of the domain, as artificial_kinect_white."""
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
    """An object on the table: its instance, position and yaw."""

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
    """Camera position and target; the centre of the table top is the origin."""

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
    """Render a bench as a camera image: uint8 sRGB with depth, masks and labels."""
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
