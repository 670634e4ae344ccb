# SPDX-License-Identifier: Apache-2.0
"""Crockery: turned about z, standing on z = 0."""

import numpy as np

from newfound_sim.materials import Material
from newfound_sim.meshes import ball, curve, lathe, moved, tube
from newfound_sim.objects.palette import Piece, Rng, ceramic, near, pick, plastic


def mug(rng: Rng) -> list[Piece]:
    """A cylinder open at the top with one ear."""
    r, height, wall = rng.uniform(0.036, 0.044), rng.uniform(0.08, 0.105), 0.004
    belly, foot = rng.uniform(0.95, 1.08), rng.uniform(0.8, 1.0)
    outside = curve([(r * foot, 0), (r * belly, height * 0.45), (r, height)], 12)
    inside = curve([(r - wall, height), (r * belly - wall, height * 0.45), (r * 0.75, wall)], 12)
    body = lathe(np.vstack([[(0, 0)], outside, inside, [(0, wall)]]), 40)
    out, low, high = rng.uniform(0.024, 0.034), 0.2 * height, 0.84 * height
    ear = [(r * 0.95, high), (r + 0.75 * out, high), (r + out, 0.55 * height)]
    path = curve([*ear, (r + 0.7 * out, low * 1.1), (r * belly * 0.94, low)], 20)
    handle = tube(np.stack([path[:, 0], 0 * path[:, 0], path[:, 1]], axis=1), 0.0055, 12, 1.3)
    glaze = ceramic(rng)
    pieces = [Piece(body, glaze), Piece(handle, glaze)]
    if rng.random() < 0.5:
        z0, z1 = height * rng.uniform(0.2, 0.45), height * rng.uniform(0.6, 0.8)
        radius = np.interp((z0, z1), outside[:, 1], outside[:, 0]) + 0.0005
        band = [(float(radius[0]), z0), (float(radius[1]), z1)]
        pieces.append(Piece(lathe(band, 40), ceramic(rng)))
    if rng.random() < 0.4:
        level = 0.82 * height
        drink = lathe(
            [(0, level - 0.002), (r - wall, level - 0.002), (r - wall, level), (0, level)]
        )
        pieces.append(Piece(drink, plastic(rng, pick(rng, (0.16, 0.08, 0.04), (0.5, 0.3, 0.15)))))
    return pieces


def bowl(rng: Rng) -> list[Piece]:
    """Wide, deep and open."""
    r, height, wall = rng.uniform(0.055, 0.075), rng.uniform(0.048, 0.07), 0.004
    foot = r * rng.uniform(0.35, 0.5)
    outside = curve([(foot, 0.004), (r * 0.82, height * 0.42), (r, height)], 14)
    inside = curve([(r - wall, height), (r * 0.8 - wall, height * 0.45), (foot * 0.8, 0.008)], 14)
    profile = np.vstack([[(0, 0.002), (foot, 0)], outside, inside, [(0, 0.007)]])
    glaze = ceramic(rng)
    pieces = [Piece(lathe(profile, 48), glaze)]
    if rng.random() < 0.5:
        edge = lathe(
            [(r - wall, height), (r + 0.0006, height - 0.004), (r + 0.0006, height + 0.0006)]
        )
        pieces.append(Piece(edge, plastic(rng)))
    return pieces


def dinner_plate(rng: Rng) -> list[Piece]:
    """A flat dish with a rim."""
    r, height = rng.uniform(0.085, 0.11), rng.uniform(0.012, 0.018)
    well = r * rng.uniform(0.6, 0.7)
    top = [
        (r, height),
        (r * 0.97, height + 0.001),
        (well, 0.006),
        (well * 0.9, 0.0045),
        (0, 0.0045),
    ]
    pieces = [Piece(lathe([(0, 0), (well * 0.9, 0), (well, 0.001), *top], 56), ceramic(rng))]
    for share in (0.97, well / r + 0.04)[: rng.integers(0, 3)]:
        z = float(np.interp(share * r, (well, r * 0.97), (0.006, height + 0.001)))
        ring = lathe(
            [
                (share * r - 0.003, z - 0.001),
                (share * r - 0.001, z + 0.0007),
                (share * r + 0.0015, z + 0.0012),
                (share * r + 0.002, z - 0.001),
            ],
            56,
        )
        pieces.append(Piece(ring, plastic(rng)))
    return pieces


def teapot(rng: Rng) -> list[Piece]:
    """A round belly with a spout, a handle and a lid with a knob."""
    r, height = rng.uniform(0.05, 0.062), rng.uniform(0.08, 0.1)
    mouth = 0.55 * r
    side = curve(
        [(r * 0.62, 0), (r, height * 0.42), (r * 0.85, height * 0.78), (mouth, height)], 18
    )
    lid = curve([(mouth * 1.05, height), (mouth * 0.75, height * 1.1), (0.008, height * 1.16)], 8)
    knob = moved(ball(0.0095, detail=2), z=height * 1.2)
    reach = rng.uniform(0.045, 0.06)
    spout = curve(
        [
            (r * 0.75, 0.3 * height),
            (r + 0.4 * reach, 0.45 * height),
            (r + 0.65 * reach, 0.8 * height),
            (r + reach, 1.02 * height),
        ],
        16,
    )
    ear = curve(
        [
            (-r * 0.75, 0.85 * height),
            (-r - 0.55 * reach, 0.92 * height),
            (-r - 0.8 * reach, 0.6 * height),
            (-r - 0.45 * reach, 0.25 * height),
            (-r * 0.9, 0.25 * height),
        ],
        20,
    )
    upright = [np.stack([p[:, 0], 0 * p[:, 0], p[:, 1]], axis=1) for p in (spout, ear)]
    glaze = ceramic(rng)
    top = glaze if rng.random() < 0.6 else ceramic(rng)
    return [
        Piece(lathe(np.vstack([[(0, 0)], side, [(0, height)]]), 40), glaze),
        Piece(lathe(np.vstack([[(0, height)], lid, [(0, height * 1.16)]]), 32), top),
        Piece(knob, top),
        Piece(tube(upright[0], np.linspace(0.017, 0.0075, 16), 16), glaze),
        Piece(tube(upright[1], 0.0062, 12), glaze),
    ]


def wine_glass(rng: Rng) -> list[Piece]:
    """A glass cup on a stem, often with wine."""
    r, height = rng.uniform(0.034, 0.042), rng.uniform(0.15, 0.19)
    stem, wall = height * rng.uniform(0.42, 0.5), 0.0012
    cup = curve(
        [
            (0.004, stem),
            (r * 0.8, stem + 0.02),
            (r, stem + 0.4 * (height - stem)),
            (r * 0.8, height),
        ],
        16,
    )
    inner = cup[::-1] - np.array([wall, 0])
    foot = [(0, 0), (r * 0.9, 0), (r * 0.9, 0.002), (0.006, 0.006), (0.0038, 0.014)]
    profile = np.vstack([foot, [(0.0034, stem * 0.9)], cup, inner[:-1], [(0, stem + 0.003)]])
    pieces = [Piece(lathe(profile, 40), Material("glass", near(rng, (0.97, 0.98, 0.98), 0.015)))]
    level = stem + rng.uniform(0.3, 0.55) * (height - stem)
    inside = [(max(0.0, radius - 0.0016), z) for radius, z in cup if z < level]
    wine = plastic(rng, pick(rng, (0.4, 0.03, 0.08), (0.85, 0.75, 0.35)))
    pieces.append(Piece(lathe([(0, stem + 0.004), *inside[2:], (0, inside[-1][1])], 40), wine))
    return pieces
