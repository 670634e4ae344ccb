# SPDX-License-Identifier: Apache-2.0
"""Fruit and vegetables."""

import numpy as np
from trimesh import Trimesh

from newfound_sim.materials import Material, Texture, speckle
from newfound_sim.meshes import bent, curve, join, lathe, moved, plate, stroke, tube, turned
from newfound_sim.objects.palette import Piece, Rng, near, pick

STEM = (0.35, 0.22, 0.1)


def banana(rng: Rng) -> list[Piece]:
    """A bent, edged tube with a stem and dark ends."""
    length, bow = rng.uniform(0.15, 0.2), rng.uniform(1.0, 1.5)
    angle = np.linspace(-bow / 2, bow / 2, 30)
    radius = length / bow
    path = np.stack([radius * np.sin(angle), radius * (np.cos(angle) - 1), 0 * angle], axis=1)
    r = rng.uniform(0.016, 0.019)
    along = np.linspace(0, 1, 30)
    girth = curve(
        [(0, 0.28), (0.06, 0.42), (0.2, 0.85), (0.5, 1.0), (0.82, 0.85), (0.95, 0.45), (1, 0.3)],
        60,
    )
    thick = r * np.interp(along, girth[:, 0], girth[:, 1])
    skin = pick(rng, (0.93, 0.8, 0.18), (0.9, 0.75, 0.12), (0.75, 0.8, 0.2))
    out = (path[0] - path[1]) / np.linalg.norm(path[0] - path[1])
    stem_path = (
        path[0] + np.outer((-0.004, 0.012, 0.026), out) + np.outer((0, 0, 0.004), (0, 1, 0))
    )
    end = path[-1] + np.outer(
        (-0.003, 0.004), (path[-1] - path[-2]) / np.linalg.norm(path[-1] - path[-2])
    )
    body = tube(path, thick, 5 if rng.random() < 0.5 else 6)
    smooth = tube(path, thick * 0.97, 16)
    peel = Material("plastic", skin, rng.uniform(0.45, 0.6))
    return [
        Piece(join(body, smooth), peel),
        Piece(
            tube(stem_path, (0.0052, 0.0038, 0.005), 8),
            Material("plastic", near(rng, (0.55, 0.5, 0.15)), 0.6),
        ),
        Piece(tube(end, 0.0055, 8), Material("diffuse", near(rng, (0.18, 0.12, 0.06), 0.03))),
    ]


def apple(rng: Rng) -> list[Piece]:
    """Round with a dimple, a stem and sometimes a leaf."""
    r = rng.uniform(0.034, 0.042)
    tall = rng.uniform(0.85, 1.0)
    outline = [
        (0, 0.2),
        (0.3, 0.03),
        (0.5, 0.02),
        (0.85, 0.45),
        (1.0, 1.05),
        (0.9, 1.55),
        (0.55, 1.85),
        (0.22, 1.78),
        (0, 1.5),
    ]
    profile = curve(np.array(outline) * (r, r * tall), 30)
    skin = pick(rng, (0.72, 0.08, 0.08), (0.8, 0.2, 0.1), (0.45, 0.68, 0.15), (0.85, 0.75, 0.25))
    flesh = Material("plastic", roughness=0.25, texture=Texture(speckle(rng, skin, 0.22), 0.05))
    top = 1.5 * r * tall
    stem = curve([(0, 0, top), (0.002, 0, top + 0.012), (0.007, 0, top + 0.024)], 6)
    pieces = [Piece(lathe(profile, 36, 5, 0.012), flesh)]
    pieces.append(Piece(tube(stem, 0.0017, 8), Material("diffuse", near(rng, STEM))))
    if rng.random() < 0.5:
        pieces.append(Piece(moved(_leaf(rng), x=0.003, z=top + 0.014), _green(rng)))
    return pieces


def pear(rng: Rng) -> list[Piece]:
    """A drop: a thick belly, a narrow shoulder and a stem."""
    r, height = rng.uniform(0.032, 0.039), rng.uniform(0.088, 0.108)
    outline = [
        (0, 0.03),
        (0.35, 0.0),
        (0.85, 0.14),
        (1.0, 0.32),
        (0.82, 0.55),
        (0.5, 0.75),
        (0.42, 0.9),
        (0.22, 0.99),
        (0, 0.97),
    ]
    profile = curve(np.array(outline) * (r, height), 30)
    skin = pick(rng, (0.68, 0.74, 0.25), (0.82, 0.76, 0.3), (0.62, 0.45, 0.2))
    flesh = Material("plastic", roughness=0.4, texture=Texture(speckle(rng, skin, 0.18), 0.05))
    stem = curve(
        [(0, 0, 0.95 * height), (0.002, 0, height + 0.008), (0.008, 0, height + 0.022)], 6
    )
    return [
        Piece(lathe(profile, 36), flesh),
        Piece(
            tube(stem, (0.0015, 0.0015, 0.0015, 0.0016, 0.0018, 0.0022), 8),
            Material("diffuse", near(rng, STEM)),
        ),
    ]


def carrot(rng: Rng) -> list[Piece]:
    """A ringed orange cone with green tops; lies along x."""
    length, r = rng.uniform(0.13, 0.18), rng.uniform(0.014, 0.02)
    along = np.linspace(0, 1, 26)
    girth = np.interp(along, (0, 0.05, 0.25, 0.9, 1), (0.7, 1.0, 0.95, 0.3, 0.05))
    rings = 1 + 0.03 * rng.standard_normal(26)
    body = tube(
        np.stack([along * length, 0.004 * np.sin(3 * along), 0 * along], 1), r * girth * rings, 16
    )
    leaves = []
    for _ in range(rng.integers(5, 8)):
        out, side, up = rng.uniform(0.035, 0.07), rng.uniform(-0.6, 0.6), rng.uniform(-0.1, 0.5)
        path = curve(
            [
                (0.003, 0, 0),
                (-0.5 * out, 0.4 * side * out, 0.6 * up * out),
                (-out, side * out, up * out),
            ],
            6,
        )
        leaves.append(tube(path, np.linspace(0.0024, 0.0014, 6), 6))
        for share in (0.55, 0.75, 0.95):
            at = path[int(share * 5)]
            leaves.append(moved(turned(_leaf(rng, 0.4), "z", rng.uniform(90, 270)), *at))
    orange = pick(rng, (0.93, 0.48, 0.1), (0.9, 0.4, 0.08))
    return [Piece(body, Material("plastic", orange, 0.5)), Piece(join(*leaves), _green(rng))]


def _leaf(rng: Rng, size: float = 1.0) -> Trimesh:
    length = rng.uniform(0.022, 0.032) * size
    blade = plate(
        stroke([(0, 0, 0.001), (length * 0.5, 0, length * 0.25), (length, 0, 0.0008)], 10), 0.0008
    )
    return bent(blade, lambda x: 0.25 * x - 4 * x * x)


def _green(rng: Rng) -> Material:
    return Material("plastic", near(rng, (0.22, 0.5, 0.14)), 0.5)
