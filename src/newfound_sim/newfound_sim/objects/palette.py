# SPDX-License-Identifier: Apache-2.0
"""Pieces of objects and their materials; every call draws a slightly different material."""

import colorsys
from typing import NamedTuple

import numpy as np
from trimesh import Trimesh

from newfound_sim.materials import Colour, Kind, Material, Texture
from newfound_sim.materials import wood as wood_grain

Rng = np.random.Generator
WOODS = [
    ((0.85, 0.68, 0.45), (0.68, 0.48, 0.27)),
    ((0.72, 0.5, 0.3), (0.5, 0.31, 0.17)),
    ((0.9, 0.78, 0.58), (0.78, 0.62, 0.4)),
    ((0.55, 0.33, 0.2), (0.36, 0.2, 0.11)),
]


class Piece(NamedTuple):
    """A mesh of one material, in the frame of its object."""

    mesh: Trimesh
    material: Material


def hue(rng: Rng, saturation: tuple = (0.6, 0.95), value: tuple = (0.45, 0.95)) -> Colour:
    """Any lively colour."""
    return colorsys.hsv_to_rgb(rng.random(), rng.uniform(*saturation), rng.uniform(*value))


def near(rng: Rng, colour: Colour, spread: float = 0.06) -> Colour:
    """About this colour."""
    shift = rng.normal(0, spread / 2) + rng.normal(0, spread / 3, 3)
    red, green, blue = np.clip(np.asarray(colour) + shift, 0.02, 0.98)
    return float(red), float(green), float(blue)


def steel(rng: Rng) -> Material:
    """Bright tool steel or chrome."""
    grey = rng.uniform(0.72, 0.88)
    kind: Kind = "metal" if rng.random() < 0.6 else "rough_metal"
    return Material(kind, near(rng, (grey, grey, grey * 1.01), 0.02), rng.uniform(0.2, 0.45))


def dark_steel(rng: Rng) -> Material:
    """Forged or blackened steel."""
    grey = rng.uniform(0.3, 0.5)
    return Material("rough_metal", (grey, grey, grey * 1.03), rng.uniform(0.35, 0.55))


def some_steel(rng: Rng) -> Material:
    """Bright more often than dark."""
    return steel(rng) if rng.random() < 0.65 else dark_steel(rng)


def brass(rng: Rng) -> Material:
    """Yellow metal."""
    return Material("rough_metal", near(rng, (0.88, 0.72, 0.35), 0.05), rng.uniform(0.25, 0.4))


def plastic(rng: Rng, colour: Colour | None = None) -> Material:
    """Coloured plastic or lacquer, of any colour if none is given."""
    return Material("plastic", colour or hue(rng), rng.uniform(0.18, 0.5))


def rubber(rng: Rng) -> Material:
    """Nearly black and matt."""
    grey = rng.uniform(0.1, 0.22)
    return Material("plastic", (grey, grey, grey), rng.uniform(0.5, 0.8))


def ceramic(rng: Rng) -> Material:
    """Glazed: white as often as coloured."""
    white = near(rng, (0.92, 0.91, 0.87), 0.04)
    colour = white if rng.random() < 0.45 else hue(rng, (0.35, 0.85), (0.35, 0.9))
    return Material("plastic", colour, rng.uniform(0.12, 0.3))


def wood(rng: Rng, repeat: float = 0.12) -> Material:
    """Wood with its grain along x."""
    light, dark = WOODS[rng.integers(len(WOODS))]
    picture = wood_grain(rng, near(rng, light, 0.05), near(rng, dark, 0.05), 128, 4)
    return Material("plastic", roughness=rng.uniform(0.4, 0.65), texture=Texture(picture, repeat))


def pick(rng: Rng, *colours: Colour) -> Colour:
    """One of these colours, slightly changed."""
    return near(rng, colours[rng.integers(len(colours))])
