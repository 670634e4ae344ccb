# SPDX-License-Identifier: Apache-2.0
"""Hammers: the handle lies along x, the head across it along y with its face at +y."""

import numpy as np
import shapely
from trimesh import Trimesh

from newfound_sim.meshes import curve as smooth
from newfound_sim.meshes import cut, join, lathe, moved, plate, stroke, tube, turned
from newfound_sim.objects.palette import (
    Piece,
    Rng,
    pick,
    plastic,
    rubber,
    some_steel,
    steel,
    wood,
)


def claw_hammer(rng: Rng) -> list[Piece]:
    """A round face on one side, a split claw that curves back on the other."""
    length, size = rng.uniform(0.27, 0.34), rng.uniform(0.95, 1.2)
    face = lathe(
        [
            (0, 0.072),
            (0.0135, 0.072),
            (0.0155, 0.069),
            (0.0155, 0.054),
            (0.01, 0.047),
            (0.01, 0.036),
            (0.0135, 0.016),
            (0.0135, -0.018),
            (0, -0.018),
        ],
        sections=24,
    )
    reach, hook = rng.uniform(0.075, 0.09), rng.uniform(0.028, 0.048)
    spine = [(0, -0.005, 0.0125), (-0.004, -0.03, 0.0105)]
    spine += [(-0.4 * hook, -0.65 * reach, 0.007), (-hook, -reach, 0.002)]
    claw = plate(stroke(spine, 10), 0.027)
    gap = shapely.Polygon([(-0.034, 0), (-0.12, 0.011), (-0.12, -0.011)])  # in (y, z)
    wedge = turned(turned(plate(gap, 0.4), "x", 90), "z", 90)
    head = join(turned(face, "x", -90), cut(claw, wedge))
    head.apply_scale(size)
    return [*_handle(rng, length), Piece(moved(head, x=length), some_steel(rng))]


def ball_peen_hammer(rng: Rng) -> list[Piece]:
    """A flat face on one side, a ball on the other."""
    length, size = rng.uniform(0.26, 0.34), rng.uniform(0.95, 1.3)
    r = rng.uniform(0.0125, 0.0155)
    arc = np.radians(np.linspace(-90, 52, 10))
    peen = np.stack([r * np.cos(arc), -0.045 + r * np.sin(arc)], axis=1)
    rest = [(0.0085, -0.026), (0.0135, -0.014), (0.0135, 0.014), (0.0095, 0.024)]
    rest += [(0.0095, 0.034), (0.0165, 0.043), (0.0165, 0.057), (0.014, 0.06), (0, 0.06)]
    head = turned(lathe(np.vstack([peen, rest]), sections=24), "x", -90)
    head.apply_scale(size)
    return [*_handle(rng, length), Piece(moved(head, x=length), some_steel(rng))]


def mallet(rng: Rng) -> list[Piece]:
    """A thick barrel of rubber, plastic or wood on a plain handle."""
    length = rng.uniform(0.25, 0.33)
    r, half = rng.uniform(0.028, 0.036), rng.uniform(0.045, 0.06)
    waist = rng.uniform(0.86, 1.04)
    side = smooth([(r * 0.97, -half + 0.004), (r * waist, 0), (r * 0.97, half - 0.004)], 9)
    profile = [(0, -half), (r * 0.9, -half), *side, (r * 0.9, half), (0, half)]
    head = moved(turned(lathe(profile, 32), "x", -90), x=length)
    draw = rng.random()
    if draw < 0.55:
        material = rubber(rng)
    elif draw < 0.85:
        material = plastic(rng, pick(rng, (0.85, 0.85, 0.82), (0.75, 0.2, 0.12), (0.85, 0.6, 0.1)))
    else:
        material = wood(rng)
    return [*_handle(rng, length + r * 0.4, wooden=True), Piece(head, material)]


def _handle(rng: Rng, length: float, wooden: bool = False) -> list[Piece]:
    if wooden or rng.random() < 0.55:
        r = rng.uniform(0.9, 1.1)
        stations = [(0, 0.010), (0.012, 0.016), (0.1, 0.0155), (0.45 * length, 0.0115)]
        shape = smooth([*stations, (0.8 * length, 0.0115), (length, 0.0125)], 24)
        return [Piece(_swept(shape, r), wood(rng))]
    shaft = _swept(np.array([(0.05, 0.0085), (length, 0.0085)]), 1.0)
    grip = rng.uniform(0.38, 0.5) * length
    stations = [(0, 0.014), (0.008, 0.0175), (0.03, 0.0145), (0.5 * grip, 0.0155)]
    sleeve = smooth([*stations, (grip - 0.012, 0.0125), (grip, 0.0145)], 20)
    colour = pick(rng, (0.1, 0.1, 0.1), (0.1, 0.25, 0.65), (0.75, 0.1, 0.08), (0.9, 0.5, 0.05))
    bar = steel(rng) if rng.random() < 0.5 else plastic(rng, pick(rng, (0.9, 0.7, 0.1)))
    return [Piece(shaft, bar), Piece(_swept(sleeve, 1.0), plastic(rng, colour))]


def _swept(stations: np.ndarray, scale: float) -> Trimesh:
    path = np.stack([stations[:, 0], 0 * stations[:, 0], 0 * stations[:, 0]], axis=1)
    return tube(path, stations[:, 1] * scale, sections=18, flat=0.78)
