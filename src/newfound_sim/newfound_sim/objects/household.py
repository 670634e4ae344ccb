# SPDX-License-Identifier: Apache-2.0
"""Balls, books and pens."""

import numpy as np
import shapely
from trimesh import Trimesh

from newfound_sim.materials import Material, Texture, stripes
from newfound_sim.meshes import along_x, ball, block, join, lathe, moved, plate, tube, turned
from newfound_sim.objects.palette import Piece, Rng, hue, near, pick, plastic


def toy_ball(rng: Rng) -> list[Piece]:
    """A tennis ball, a basketball or a beach ball with a seam."""
    r = rng.uniform(0.03, 0.045)
    t = np.linspace(0, 2 * np.pi, 80, endpoint=False)
    draw = rng.random()
    if draw < 0.45:  # one seam that winds about the ball
        a, b = 0.75, 0.25
        seam = np.stack(
            [
                a * np.cos(t) + b * np.cos(3 * t),
                a * np.sin(t) - b * np.sin(3 * t),
                2 * np.sqrt(a * b) * np.sin(2 * t),
            ],
            1,
        )
        seams = [seam / np.linalg.norm(seam, axis=1, keepdims=True)]
        skin = Material(
            "diffuse", pick(rng, (0.78, 0.85, 0.2), (0.8, 0.75, 0.2), (0.9, 0.4, 0.35))
        )
        line = Material("diffuse", near(rng, (0.92, 0.92, 0.88)))
    else:  # great circles
        rings = np.stack([np.cos(t), np.sin(t), 0 * t], 1)
        seams = [rings, rings[:, [2, 0, 1]], rings[:, [1, 2, 0]]]
        skin = plastic(
            rng, pick(rng, (0.85, 0.42, 0.15), (0.8, 0.1, 0.1), (0.15, 0.3, 0.75), (0.9, 0.9, 0.9))
        )
        line = plastic(rng, pick(rng, (0.08, 0.08, 0.08), (0.95, 0.95, 0.9)))
    lines = [tube(p * r * 0.995, r * 0.035, 8, ring=True) for p in seams]
    return [Piece(ball(r), skin), Piece(join(*lines), line)]


def book(rng: Rng) -> list[Piece]:
    """A cover round a block of pages, with a rounded spine and a title."""
    wide, tall, thick = rng.uniform(0.1, 0.13), rng.uniform(0.14, 0.19), rng.uniform(0.014, 0.035)
    board = 0.0025
    pages = moved(block((wide - 0.006, tall - 0.008, thick)), x=-0.002)
    covers = [
        moved(block((wide, tall, board), 0.0006), z=s * (thick + board) / 2) for s in (-1, 1)
    ]
    angle = np.linspace(np.pi / 2, 3 * np.pi / 2, 9)
    radius = thick / 2 + board
    spine = np.stack([0.55 * radius * np.cos(angle) - wide / 2, radius * np.sin(angle)], 1)
    curve = _wall(spine, tall)
    z = thick / 2 + board + 0.0001
    title = moved(
        block((wide * rng.uniform(0.45, 0.7), tall * rng.uniform(0.1, 0.22), 0.0006)),
        y=tall * rng.uniform(0.12, 0.28),
        z=z,
    )
    mark = moved(
        block((wide * rng.uniform(0.2, 0.75), tall * rng.uniform(0.02, 0.3), 0.0006)),
        y=-tall * rng.uniform(0.1, 0.25),
        z=z,
    )
    cloth = plastic(rng, hue(rng, (0.4, 0.95), (0.25, 0.85)))
    paper = Texture(stripes([(0.93, 0.91, 0.84), (0.85, 0.82, 0.74)] * 8, 64), 0.012)
    return [
        Piece(pages, Material("diffuse", texture=paper)),
        Piece(join(*covers, curve), cloth),
        Piece(title, plastic(rng, pick(rng, (0.93, 0.9, 0.8), (0.9, 0.75, 0.3), (0.1, 0.1, 0.1)))),
        Piece(mark, plastic(rng)),
    ]


def marker(rng: Rng) -> list[Piece]:
    """A felt pen: a barrel, a cap with a clip; lies along x."""
    r, length = rng.uniform(0.0065, 0.0095), rng.uniform(0.115, 0.14)
    split = length * rng.uniform(0.58, 0.68)
    barrel = lathe(
        [(0, 0), (r * 0.82, 0), (r * 0.9, 0.003), (r, 0.018), (r, split), (0, split)], 28
    )
    cap = lathe(
        [
            (0, split - 0.001),
            (r * 1.1, split - 0.001),
            (r * 1.12, split + 0.004),
            (r * 1.05, length - 0.004),
            (r * 0.8, length),
            (0, length),
        ],
        28,
    )
    clip = tube(
        [(r * 1.0, 0, length - 0.005), (r * 1.4, 0, length - 0.006), (r * 1.4, 0, split + 0.006)],
        0.0016,
        8,
    )
    ink = plastic(rng, hue(rng, (0.8, 1.0), (0.3, 0.85)))
    body = plastic(rng, near(rng, (0.92, 0.92, 0.92))) if rng.random() < 0.6 else ink
    band = lathe(
        [
            (r - 0.001, 0.03),
            (r + 0.0003, 0.03),
            (r + 0.0003, split * 0.8),
            (r - 0.001, split * 0.8),
        ],
        28,
    )
    stripe = plastic(rng) if rng.random() < 0.5 else ink
    end = lathe([(0, -0.0002), (r * 0.84, -0.0002), (r * 0.94, 0.006), (0, 0.006)], 28)
    return [
        Piece(along_x(barrel), body),
        Piece(along_x(join(cap, clip)), ink),
        Piece(along_x(band), stripe),
        Piece(along_x(end), ink),
    ]


def _wall(line: np.ndarray, height: float) -> Trimesh:
    """A thin wall standing along y over a line in x and z."""
    outline = shapely.LineString(line).buffer(0.0012)
    return turned(plate(outline, height), "x", 90)
