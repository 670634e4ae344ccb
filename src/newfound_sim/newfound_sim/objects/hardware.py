# SPDX-License-Identifier: Apache-2.0
"""Locks, keys and bolts."""

import numpy as np
import shapely
import shapely.affinity

from newfound_sim.meshes import (
    along_x,
    block,
    cut,
    disc,
    lathe,
    moved,
    plate,
    stroke,
    tube,
)
from newfound_sim.objects.palette import (
    Piece,
    Rng,
    brass,
    plastic,
    rubber,
    some_steel,
    steel,
)


def padlock(rng: Rng) -> list[Piece]:
    """A solid body, a round shackle, a keyhole; lies on its back."""
    wide, tall, thick = (
        rng.uniform(0.04, 0.052),
        rng.uniform(0.036, 0.046),
        rng.uniform(0.014, 0.018),
    )
    body = block((wide, tall, thick), 0.003)
    half, r = wide * 0.32, rng.uniform(0.0034, 0.0045)
    rise = tall / 2 + rng.uniform(0.008, 0.022)
    arc = np.linspace(0, np.pi, 16)
    bow = [(half, tall / 2 - 0.004, 0)] + [
        (half * np.cos(a), rise + half * np.sin(a), 0) for a in arc
    ]
    shackle = tube([*bow, (-half, tall / 2 - 0.004, 0)], r, 14)
    hole = plate(disc(0, -tall * 0.12, 0.0055), thick + 0.0012)
    slit = plate(
        stroke([(0, -tall * 0.12 - 0.004, 0.0009), (0, -tall * 0.12 + 0.004, 0.0009)]),
        thick + 0.002,
    )
    draw = rng.random()
    shell = brass(rng) if draw < 0.5 else (steel(rng) if draw < 0.7 else plastic(rng))
    return [
        Piece(body, shell),
        Piece(shackle, steel(rng)),
        Piece(hole, steel(rng)),
        Piece(slit, rubber(rng)),
    ]


def key(rng: Rng) -> list[Piece]:
    """A bow with a hole and a blade with cuts."""
    length, bow = rng.uniform(0.036, 0.048), rng.uniform(0.0115, 0.0145)
    blade = rng.uniform(0.0036, 0.0046)
    outline = stroke([(0, 0, blade), (length, 0, blade)]).union(
        disc(-bow, 0, bow, int(rng.choice([2, 8])))
    )
    outline = outline.difference(disc(-bow * 1.3, 0, bow * 0.32))
    for x in np.arange(0.012, length, 0.0052):
        deep = rng.uniform(0.001, 0.0032)
        notch = shapely.Polygon(
            [(x - 0.0025, -blade - 0.001), (x, -blade + deep), (x + 0.0025, -blade - 0.001)]
        )
        outline = outline.difference(notch)
    groove = plate(shapely.box(0.004, 0.0004, length - 0.002, 0.0014), 0.003)
    metal = brass(rng) if rng.random() < 0.5 else steel(rng)
    pieces = [Piece(cut(plate(outline, 0.0024), moved(groove, z=0.0022)), metal)]
    if rng.random() < 0.35:
        cover = disc(-bow, 0, bow * 1.12).difference(disc(-bow * 1.3, 0, bow * 0.3))
        pieces.append(Piece(plate(cover, 0.005), plastic(rng)))
    for piece in pieces:
        piece.mesh.apply_scale(1.35)  # a large key: a small one would be a few pixels
    return pieces


def bolt(rng: Rng) -> list[Piece]:
    """A hexagonal head on a threaded shank; lies along x."""
    r, length, head = rng.uniform(0.006, 0.0085), rng.uniform(0.045, 0.075), rng.uniform(1.75, 2.0)
    tall = r * 1.3
    bare = rng.uniform(0.1, 0.4) * length
    turns = np.arange(tall + bare, tall + length, 0.0014)
    thread = [(r * (1 - 0.13 * (i % 2)), z) for i, z in enumerate(turns)]
    shank = lathe(
        [
            (0, tall * 0.5),
            (r, tall * 0.5),
            (r, tall + bare),
            *thread,
            (r * 0.75, tall + length + 0.0015),
            (0, tall + length + 0.0015),
        ],
        20,
    )
    cap = lathe(
        [(0, 0), (r * head * 0.86, 0), (r * head, tall * 0.18), (r * head, tall), (0, tall)], 6
    )
    metal = brass(rng) if rng.random() < 0.2 else some_steel(rng)
    pieces = [Piece(along_x(cap), metal), Piece(along_x(shank), metal)]
    if rng.random() < 0.5:
        nut = lathe(
            [
                (r * 0.9, 0),
                (r * head, 0),
                (r * head, tall * 0.8),
                (r * 0.9, tall * 0.8),
                (r * 0.9, 0),
            ],
            6,
        )
        pieces.append(Piece(moved(along_x(nut), x=tall + length * rng.uniform(0.45, 0.8)), metal))
    return pieces
