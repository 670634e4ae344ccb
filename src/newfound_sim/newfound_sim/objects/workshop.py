# SPDX-License-Identifier: Apache-2.0
"""Things of the workshop beside the nine tools."""

import numpy as np
import shapely
import shapely.affinity

from newfound_sim.materials import Material
from newfound_sim.meshes import (
    along_x,
    block,
    disc,
    join,
    lathe,
    moved,
    plate,
    stroke,
    tube,
    turned,
)
from newfound_sim.objects.palette import (
    Piece,
    Rng,
    dark_steel,
    near,
    pick,
    plastic,
    rubber,
    some_steel,
    steel,
)


def wrench(rng: Rng) -> list[Piece]:
    """A spanner: an open jaw at one end, a ring at the other."""
    length, size = rng.uniform(0.14, 0.2), rng.uniform(0.8, 1.1)
    jaw, ring = 0.0185 * size, 0.0135 * size
    shaft = stroke([(0, 0, 0.0055), (length, 0, 0.0075)])
    mouth = stroke([(0.004, 0, 0.0085 * size), (0.05, 0, 0.0085 * size)])
    mouth = shapely.affinity.rotate(mouth, rng.uniform(8, 18), origin=(0, 0))
    mouth = shapely.affinity.translate(mouth, length + 0.008, 0)
    hexagon = [
        (0.0085 * size * np.cos(a), 0.0085 * size * np.sin(a)) for a in np.arange(6) * np.pi / 3
    ]
    outline = shaft.union(disc(0, 0, ring)).union(disc(length + 0.008, 0, jaw)).difference(mouth)
    outline = outline.difference(shapely.Polygon(hexagon))
    body = plate(shapely.Polygon(outline.exterior, outline.interiors), 0.0075)
    return [Piece(body, some_steel(rng) if rng.random() < 0.85 else plastic(rng))]


def tape_roll(rng: Rng) -> list[Piece]:
    """A ring of tape on a cardboard core, its end standing off."""
    outer, inner, half = (
        rng.uniform(0.044, 0.054),
        rng.uniform(0.026, 0.033),
        rng.uniform(0.01, 0.024),
    )
    bevel = 0.001
    core = [
        (inner, -half),
        (inner + 0.004, -half),
        (inner + 0.004, half),
        (inner, half),
        (inner, -half),
    ]
    roll = [
        (inner + 0.003, -half + bevel),
        (outer - bevel, -half + bevel),
        (outer, -half + 2 * bevel),
    ]
    roll += [
        (outer, half - 2 * bevel),
        (outer - bevel, half - bevel),
        (inner + 0.003, half - bevel),
    ]
    flap = plate(
        stroke(
            [(outer - 0.0008, 0, 0.0006), (outer, 0.014, 0.0005), (outer + 0.005, 0.026, 0.0005)],
            6,
        ),
        2 * half - 0.003,
    )
    tape = plastic(
        rng,
        pick(
            rng,
            (0.72, 0.52, 0.3),
            (0.6, 0.62, 0.65),
            (0.12, 0.12, 0.12),
            (0.15, 0.35, 0.75),
            (0.9, 0.8, 0.5),
        ),
    )
    card = Material("diffuse", near(rng, (0.75, 0.62, 0.45)))
    return [
        Piece(lathe(core, 48), card),
        Piece(lathe([*roll, roll[0]], 48), tape),
        Piece(flap, tape),
    ]


def clamp(rng: Rng) -> list[Piece]:
    """A G-clamp: a C-shaped frame, a threaded spindle with a bar, two pads."""
    height, depth = rng.uniform(0.07, 0.1), rng.uniform(0.045, 0.06)
    line = [(0, 0, 0.0075), (-depth, 0, 0.0085), (-depth, height, 0.0085), (0, height, 0.0085)]
    frame = plate(stroke(line), 0.011)
    gap = rng.uniform(0.25, 0.7) * height
    end = height + rng.uniform(0.03, 0.045)
    thread = [(0.0042 + 0.0007 * (i % 2), z) for i, z in enumerate(np.linspace(gap, end, 50))]
    spindle = turned(lathe([(0, gap), *thread, (0, end)], 14), "x", -90)
    pads = [
        (0, gap - 0.005),
        (0.0085, gap - 0.005),
        (0.0085, gap),
        (0.004, gap + 0.004),
        (0, gap + 0.004),
    ]
    boss = lathe(
        [
            (0, height - 0.013),
            (0.0095, height - 0.013),
            (0.0095, height + 0.013),
            (0, height + 0.013),
        ],
        20,
    )
    anvil = lathe([(0, 0), (0.0085, 0), (0.0085, 0.011), (0, 0.011)], 20)
    bar = tube([(-0.026, end - 0.004, 0), (0.026, end - 0.004, 0)], 0.0024, 10)
    knobs = [
        moved(
            lathe([(0, -0.003), (0.0036, -0.002), (0.0036, 0.002), (0, 0.003)], 12), x, end - 0.004
        )
        for x in (-0.026, 0.026)
    ]
    paint = plastic(
        rng, pick(rng, (0.1, 0.25, 0.6), (0.75, 0.12, 0.1), (0.15, 0.15, 0.16), (0.85, 0.55, 0.1))
    )
    metal = steel(rng)
    return [
        Piece(join(frame, turned(boss, "x", -90), turned(anvil, "x", -90)), paint),
        Piece(join(spindle, turned(lathe(pads, 20), "x", -90), bar, *knobs), metal),
    ]


def flashlight(rng: Rng) -> list[Piece]:
    """A barrel that widens to a lamp head with a bright reflector; lies along x."""
    r, length, head = rng.uniform(0.0125, 0.016), rng.uniform(0.11, 0.15), rng.uniform(1.5, 1.9)
    rings = [
        (r * (1 - 0.05 * (i % 2)), 0.025 + 0.0022 * i)
        for i in range(int((length - 0.05) / 0.0022))
    ]
    flare = [(r, length - 0.012), (r * head, length + 0.012), (r * head, length + 0.034)]
    rim = [
        (r * head * 0.88, length + 0.036),
        (r * head * 0.85, length + 0.03),
        (0, length + 0.012),
    ]
    body = lathe(
        [
            (0, 0),
            (r * 0.9, 0),
            (r * 1.05, 0.003),
            (r * 1.05, 0.02),
            (r, 0.022),
            *rings,
            *flare,
            *rim,
        ],
        32,
    )
    mirror = lathe(
        [
            (0, length + 0.0125),
            (r * 0.35, length + 0.014),
            (r * head * 0.84, length + 0.031),
            (r * head * 0.84, length + 0.0305),
            (0, length + 0.0122),
        ],
        32,
    )
    lamp = moved(lathe([(0, 0), (0.0035, 0), (0.003, 0.005), (0, 0.006)], 12), z=length + 0.014)
    button = moved(block((0.008, 0.006, 0.014), 0.0015), x=-r * 1.02, z=length * 0.72)
    cover = plastic(rng) if rng.random() < 0.5 else dark_steel(rng)
    return [
        Piece(along_x(body), cover),
        Piece(along_x(mirror), Material("metal", (0.95, 0.95, 0.93), 0.15)),
        Piece(along_x(lamp), Material("plastic", (0.98, 0.95, 0.7), 0.1)),
        Piece(along_x(button), rubber(rng) if rng.random() < 0.5 else plastic(rng)),
    ]
