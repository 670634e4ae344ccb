# SPDX-License-Identifier: Apache-2.0
"""All object classes: how each is built, and how it may come to rest."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.spatial import ConvexHull

from newfound_sim.errors import ScenarioError
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
from newfound_sim.objects.piece import Piece
from newfound_sim.objects.settling import settle


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
