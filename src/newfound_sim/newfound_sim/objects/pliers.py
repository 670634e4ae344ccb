# SPDX-License-Identifier: Apache-2.0
"""Pliers: the pivot at the origin, jaws towards +x, handles towards -x, flat in x and y."""

import numpy as np
import shapely
import shapely.affinity
from trimesh import Trimesh

from newfound_sim.materials import Material
from newfound_sim.meshes import (
    curve,
    disc,
    join,
    lathe,
    mirrored,
    moved,
    plate,
    stroke,
    tube,
    turned,
)
from newfound_sim.objects.palette import Piece, Rng, pick, plastic, some_steel

GRIPS = [(0.8, 0.08, 0.06), (0.08, 0.2, 0.7), (0.95, 0.75, 0.05), (0.1, 0.1, 0.1), (0.1, 0.5, 0.2)]


def combination_pliers(rng: Rng) -> list[Piece]:
    """Short, blunt, square jaws."""
    reach = rng.uniform(0.034, 0.044)
    wide = rng.uniform(0.010, 0.0125)
    jaw = shapely.Polygon(
        [
            (-0.012, -0.004),
            (0.004, 0.0006),
            (reach, 0.0006),
            (reach, 0.55 * wide),
            (reach * 0.75, wide * 0.9),
            (0.008, wide * 1.35),
            (-0.012, wide * 0.9),
        ]
    )
    return _pliers(rng, jaw.union(disc(0, 0, 0.0135)), thickness=0.011, length=0.125)


def needle_nose_pliers(rng: Rng) -> list[Piece]:
    """Long jaws that run to a point."""
    reach = rng.uniform(0.062, 0.085)
    jaw = shapely.Polygon(
        [
            (-0.012, -0.004),
            (0.002, 0.0004),
            (reach, 0.0004),
            (reach, 0.0018),
            (0.03, 0.0052),
            (0.012, 0.0095),
            (-0.012, 0.009),
        ]
    )
    return _pliers(rng, jaw.union(disc(0, 0, 0.0115)), thickness=0.0085, length=0.11)


def water_pump_pliers(rng: Rng) -> list[Piece]:
    """Long handles and hooked jaws set at an angle to them."""
    gap, reach = rng.uniform(0.003, 0.009), rng.uniform(0.05, 0.06)
    upper = stroke([(-0.008, 0.004, 0.011), (0.02, 0.0125, 0.0095), (reach, 0.0095, 0.005)], 8)
    upper = upper.difference(shapely.box(-0.002, -0.03, 0.1, gap / 2))
    upper = upper.difference(disc(0.016, gap / 2, 0.0042))  # the hollow that grips a pipe
    lower = shapely.affinity.scale(upper, yfact=-1, origin=(0, 0))
    slot = disc(-0.012, -0.002, 0.003).union(disc(-0.004, 0.0, 0.003))
    tilt = rng.uniform(36, 48)
    head = [turned(plate(upper, 0.009), "z", tilt), turned(plate(lower, 0.009), "z", tilt)]
    mark = moved(turned(plate(slot, 0.0125), "z", tilt), z=0)
    steel = some_steel(rng)
    opening = rng.uniform(-3, 3)
    handles = _handles(rng, 0.155, opening, steel, bend=0.006)
    bolt = Piece(moved(_rivet(0.0065), x=0.002), some_steel(rng))
    return [
        Piece(join(*head), steel),
        Piece(mark, plastic(rng, (0.08, 0.08, 0.08))),
        bolt,
        *handles,
    ]


def _pliers(rng: Rng, jaw: shapely.Polygon, thickness: float, length: float) -> list[Piece]:
    """Two equal halves, opened by a few degrees."""
    size, opening = rng.uniform(0.92, 1.15), rng.uniform(1, 9)
    half = turned(plate(jaw, thickness), "z", opening)
    steel = some_steel(rng)
    pieces = [
        Piece(join(half, mirrored(half)), steel),
        Piece(_rivet(0.0055, thickness), some_steel(rng)),
        *_handles(rng, length * rng.uniform(0.92, 1.1), opening, steel),
    ]
    for piece in pieces:
        piece.mesh.apply_scale(size)
    return pieces


def _handles(
    rng: Rng, length: float, opening: float, steel: Material, bend: float = 0.012
) -> list[Piece]:
    belly = rng.uniform(0.018, 0.024)
    path = curve(
        [
            (0.004, 0.004, 0),
            (-0.014, belly * 0.45, 0),
            (-0.3 * length, belly, 0),
            (-0.7 * length, belly * 0.95, 0),
            (-length, belly - bend, 0),
        ],
        22,
    )
    core = turned(tube(path, 0.0048, 12, flat=0.85), "z", -opening)
    start = rng.integers(5, 8)
    along = np.linspace(0, 1, len(path) - start)
    swell = 0.0068 + 0.0014 * np.sin(np.pi * along) + 0.002 * np.exp(-((along / 0.07) ** 2))
    grip = turned(tube(path[start:], swell, 14, flat=0.95), "z", -opening)
    cover = plastic(rng, pick(rng, *GRIPS))
    return [
        Piece(join(core, mirrored(core)), steel),
        Piece(join(grip, mirrored(grip)), cover),
    ]


def _rivet(radius: float, thickness: float = 0.011) -> Trimesh:
    top = thickness / 2 + 0.0012
    profile = [(0, -top), (radius, -top), (radius, top - 0.0006), (radius * 0.8, top), (0, top)]
    return lathe(profile, 20)
