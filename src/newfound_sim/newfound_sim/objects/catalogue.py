# SPDX-License-Identifier: Apache-2.0
"""All object classes: how an instance is built, and the pose in which it comes to rest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.spatial import ConvexHull

from newfound_sim.errors import ScenarioError
from newfound_sim.meshes import join
from newfound_sim.objects import (
    containers,
    crafts,
    crockery,
    cutlery,
    food,
    hammers,
    hardware,
    household,
    pliers,
    screwdrivers,
    workshop,
)
from newfound_sim.objects.palette import Piece

METAL_DENSITY = 4.0  # relative to plastic and wood; enough to let heads weigh more than handles


def centre_of_mass(pieces: Sequence[Piece]) -> np.ndarray:
    """Centre of mass of the pieces' hulls; metal is denser."""
    hulls = [piece.mesh.convex_hull for piece in pieces]
    heavy = [METAL_DENSITY if "metal" in piece.material.kind else 1.0 for piece in pieces]
    mass = np.array([hull.volume * d for hull, d in zip(hulls, heavy, strict=True)])
    return mass @ np.array([hull.center_mass for hull in hulls]) / mass.sum()


def settle(pieces: Sequence[Piece], turn: np.ndarray) -> np.ndarray:
    """The 4x4 pose in which the object, dropped in orientation `turn` (3x3), lies still.

    The object stands on the facet of its hull that the plumb line from its centre of mass
    meets. If the centre is not above that facet it tips over an edge: the facet's normal
    becomes the new plumb line. Its height falls with every step, so this ends.
    """
    hull = join(*(piece.mesh for piece in pieces)).convex_hull
    centre = centre_of_mass(pieces)
    normals = hull.face_normals
    distance = np.einsum("ij,ij->i", normals, hull.triangles[:, 0] - centre)
    down = turn.T @ np.array([0, 0, -1.0])
    for _ in range(100):
        slope = normals @ down
        travel = np.where(slope > 1e-9, distance / np.maximum(slope, 1e-9), np.inf)
        facet = normals[travel.argmin()]
        if facet @ down > 1 - 1e-6:
            break
        down = facet
    pose = np.eye(4)
    pose[:3, :3] = _rotation_between(turn @ down, np.array([0, 0, -1.0])) @ turn
    low = (hull.vertices @ pose[:3, :3].T)[:, 2].min()
    pose[:3, 3] = (*-(pose[:3, :3] @ centre)[:2], -low)
    return pose


def _rotation_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smallest turn that takes unit vector a to b (Rodrigues' formula)."""
    cosine, axis = a @ b, np.cross(a, b)
    if cosine < -1 + 1e-9:
        return np.diag([1.0, -1.0, -1.0])
    cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + cross + cross @ cross / (1 + cosine)


@dataclass(frozen=True)
class ObjectClass:
    """One class: its builder, its coarse label, and how often it is found toppled."""

    make: Callable[[np.random.Generator], list[Piece]]
    coarse: str | None = None
    toppled: float = 0.0  # share of instances dropped on their side


_CLASSES: dict[str, ObjectClass] = {
    "claw_hammer": ObjectClass(hammers.claw_hammer, "hammer"),
    "ball_peen_hammer": ObjectClass(hammers.ball_peen_hammer, "hammer"),
    "mallet": ObjectClass(hammers.mallet, "hammer"),
    "combination_pliers": ObjectClass(pliers.combination_pliers, "pliers"),
    "needle_nose_pliers": ObjectClass(pliers.needle_nose_pliers, "pliers"),
    "water_pump_pliers": ObjectClass(pliers.water_pump_pliers, "pliers"),
    "flat_screwdriver": ObjectClass(screwdrivers.flat_screwdriver, "screwdriver"),
    "stubby_screwdriver": ObjectClass(screwdrivers.stubby_screwdriver, "screwdriver"),
    "precision_screwdriver": ObjectClass(screwdrivers.precision_screwdriver, "screwdriver"),
    "apple": ObjectClass(food.apple),
    "ball": ObjectClass(household.toy_ball),
    "banana": ObjectClass(food.banana),
    "bolt": ObjectClass(hardware.bolt),
    "book": ObjectClass(household.book),
    "bottle": ObjectClass(containers.bottle, toppled=0.4),
    "bowl": ObjectClass(crockery.bowl),
    "can": ObjectClass(containers.can, toppled=0.3),
    "carrot": ObjectClass(food.carrot),
    "clamp": ObjectClass(workshop.clamp),
    "flashlight": ObjectClass(workshop.flashlight),
    "fork": ObjectClass(cutlery.fork),
    "funnel": ObjectClass(containers.funnel),
    "key": ObjectClass(hardware.key),
    "knife": ObjectClass(cutlery.knife),
    "light_bulb": ObjectClass(containers.light_bulb, toppled=1.0),
    "marker": ObjectClass(household.marker),
    "mug": ObjectClass(crockery.mug, toppled=0.1),
    "padlock": ObjectClass(hardware.padlock),
    "paint_brush": ObjectClass(crafts.paint_brush),
    "pear": ObjectClass(food.pear, toppled=0.3),
    "plate": ObjectClass(crockery.dinner_plate),
    "scissors": ObjectClass(crafts.scissors),
    "spoon": ObjectClass(cutlery.spoon),
    "tape_roll": ObjectClass(workshop.tape_roll, toppled=0.3),
    "teapot": ObjectClass(crockery.teapot),
    "wine_glass": ObjectClass(crockery.wine_glass),
    "wrench": ObjectClass(workshop.wrench),
}

CLASSES: tuple[str, ...] = tuple(_CLASSES)
TOOLS: tuple[str, ...] = tuple(name for name, kind in _CLASSES.items() if kind.coarse)
COARSE: dict[str, str] = {name: kind.coarse or name for name, kind in _CLASSES.items()}


@dataclass(frozen=True, eq=False)
class ObjectModel:
    """One instance, at rest on the plane z = 0 with its weight above the origin."""

    label: str
    pieces: tuple[Piece, ...]

    @cached_property
    def middle(self) -> np.ndarray:
        """The centre of the box around the object; a hammer's weight is elsewhere."""
        low = np.min([p.mesh.bounds[0] for p in self.pieces], axis=0)
        high = np.max([p.mesh.bounds[1] for p in self.pieces], axis=0)
        return (low + high) / 2

    @cached_property
    def radius(self) -> float:
        """Of the smallest ball about the middle that holds the object."""
        points = np.vstack([p.mesh.vertices for p in self.pieces])
        return float(np.linalg.norm(points - self.middle, axis=1).max())

    def footprint(self) -> np.ndarray:
        """The corners [N, 2] of the convex outline of its shadow from straight above."""
        points = np.vstack([p.mesh.vertices[:, :2] for p in self.pieces])
        return points[ConvexHull(points).vertices]


@lru_cache(maxsize=256)
def build(label: str, seed: int) -> ObjectModel:
    """The instance of a class that belongs to a seed; always the same one."""
    if label not in _CLASSES:
        known = ", ".join(CLASSES)
        raise ScenarioError(f"unknown object class '{label}'; the classes are: {known}")
    kind = _CLASSES[label]
    rng = np.random.default_rng([seed, CLASSES.index(label)])
    pieces = kind.make(rng)
    turn = np.eye(3)
    if rng.random() < kind.toppled:
        turn = _about_x(90) @ _about_z(rng.uniform(0, 360))
    pose = settle(pieces, turn)
    placed = [Piece(p.mesh.copy().apply_transform(pose), p.material) for p in pieces]
    return ObjectModel(label, tuple(placed))


def _about_x(degrees: float) -> np.ndarray:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def _about_z(degrees: float) -> np.ndarray:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
