# SPDX-License-Identifier: Apache-2.0
"""Scissors and brushes: they lie along x."""

from collections.abc import Sequence

import numpy as np
import shapely
import shapely.affinity
from trimesh import Trimesh

from newfound_sim.materials import Material
from newfound_sim.meshes import (
    curve,
    join,
    lathe,
    loft,
    mirrored,
    moved,
    plate,
    stroke,
    tube,
    turned,
)
from newfound_sim.objects.palette import (
    Piece,
    Rng,
    pick,
    plastic,
    steel,
    wood,
)

Values = Sequence[float] | np.ndarray


def scissors(rng: Rng) -> list[Piece]:
    """Two blades that cross, and two finger loops."""
    blade, opening = rng.uniform(0.075, 0.1), rng.uniform(5, 16)
    edge = shapely.Polygon(
        [
            (-0.012, -0.002),
            (0.0, 0.0065),
            (blade * 0.5, 0.007),
            (blade, 0.0005),
            (blade, 0),
            (0, -0.004),
        ]
    )
    tang = stroke([(-0.008, 0.001, 0.005), (-0.045, 0.012, 0.0045)])
    half = turned(plate(edge.union(tang), 0.0022), "z", opening)
    long, wide = rng.uniform(0.024, 0.03), rng.uniform(0.014, 0.017)
    angle = np.linspace(0, 2 * np.pi, 30, endpoint=False)
    x, y = long * np.cos(angle), wide * np.sin(angle)
    tilt = np.radians(-14)
    loop = np.stack(
        [
            x * np.cos(tilt) - y * np.sin(tilt) - 0.062,
            x * np.sin(tilt) + y * np.cos(tilt) + 0.021,
            0 * x,
        ],
        1,
    )
    grip = turned(tube(loop, 0.0048, 12, ring=True), "z", opening)
    neck = turned(
        tube(
            curve([(-0.016, 0.004, 0), (-0.03, 0.009, 0), (-0.042, 0.013, 0)], 6),
            (0.0035, 0.005, 0.0055, 0.006, 0.006, 0.0055),
            12,
        ),
        "z",
        opening,
    )
    metal, cover = steel(rng), plastic(rng)
    pivot = lathe(
        [(0, -0.0035), (0.004, -0.0035), (0.004, 0.003), (0.003, 0.0035), (0, 0.0035)], 16
    )
    blades = [moved(half, z=0.0012), moved(mirrored(half), z=-0.0012)]
    return [
        Piece(join(*blades), metal),
        Piece(join(grip, mirrored(grip), neck, mirrored(neck)), cover),
        Piece(pivot, steel(rng)),
    ]


def paint_brush(rng: Rng) -> list[Piece]:
    """A shaped handle, a metal band, a flat tuft of bristles."""
    wide, grip, tuft = rng.uniform(0.016, 0.03), rng.uniform(0.11, 0.15), rng.uniform(0.04, 0.06)
    at = curve(
        [
            (0, 0.007),
            (0.03, 0.0095),
            (0.55 * grip, 0.0065),
            (0.85 * grip, wide * 0.75),
            (grip, wide * 0.95),
        ],
        24,
    )
    flat = np.interp(at[:, 0], (0, 0.55 * grip, grip), (0.9, 1.0, 0.0075 / (wide * 0.95)))
    handle = _slab(at[:, 0], at[:, 1], at[:, 1] * flat)
    band = _slab([grip - 0.004, grip + 0.028], [wide, wide], [0.0085, 0.0085])
    x = np.array([0, 0.5, 0.9, 1.0]) * tuft + grip + 0.026
    bristles = _slab(x, np.array([0.95, 1.06, 1.04, 0.98]) * wide, [0.0078, 0.008, 0.005, 0.0025])
    hair = pick(rng, (0.2, 0.14, 0.09), (0.8, 0.7, 0.5), (0.12, 0.12, 0.12))
    paint = pick(rng, (0.75, 0.1, 0.1), (0.1, 0.3, 0.6), (0.95, 0.8, 0.2), (0.15, 0.15, 0.15))
    cover = wood(rng) if rng.random() < 0.6 else plastic(rng, paint)
    pieces = [
        Piece(handle, cover),
        Piece(band, steel(rng)),
        Piece(bristles, Material("diffuse", hair)),
    ]
    if rng.random() < 0.4:
        wet = _slab(x[1:] + 0.001, np.array([1.08, 1.06, 1.0]) * wide, [0.0086, 0.006, 0.003])
        pieces.append(Piece(wet, plastic(rng)))
    return pieces


def _slab(x: Values, wide: Values, thick: Values) -> Trimesh:
    """A body along x whose section is a rounded rectangle (a superellipse)."""
    angle = np.linspace(0, 2 * np.pi, 28, endpoint=False)
    c, s = np.cos(angle), np.sin(angle)
    y, z = np.sign(c) * np.abs(c) ** 0.55, np.sign(s) * np.abs(s) ** 0.55
    rings = [
        np.stack([0 * y + a, y * b, z * h], axis=1) for a, b, h in zip(x, wide, thick, strict=True)
    ]
    return loft(np.array(rings))
