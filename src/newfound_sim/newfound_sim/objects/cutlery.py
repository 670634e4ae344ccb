# SPDX-License-Identifier: Apache-2.0
"""Cutlery along x, its business end at +x."""

from collections.abc import Callable

import numpy as np
import trimesh
from shapely import Polygon
from trimesh import Trimesh

from newfound_sim.materials import Material
from newfound_sim.meshes import bent, curve, join, loft, plate, stroke, tube
from newfound_sim.objects.palette import Piece, Rng, plastic, rubber, steel, wood


def fork(rng: Rng) -> list[Piece]:
    """Four tines, a shoulder, a slender handle."""
    length, wide = rng.uniform(0.1, 0.125), rng.uniform(0.0105, 0.013)
    neck, root, tip = length, length + 0.032, length + rng.uniform(0.068, 0.08)
    head = stroke([(neck, 0, 0.0032), (neck + 0.012, 0, 0.006), (root, 0, wide * 0.92)], 8)
    shoulder = plate(head.buffer(0.001), 0.0024)
    tines = []
    count = int(rng.choice([3, 4]))
    for y in np.linspace(-wide, wide, count) * 0.88:
        path = curve([(root - 0.006, y, 0), (root + 0.02, y, 0), (tip, y * 0.95, 0)], 12)
        tines.append(tube(path, np.linspace(0.0021, 0.001, 12), 8))
    metal = steel(rng)
    scoop = _scoop(neck, tip, 0.009)
    return [*_handle(rng, neck, metal), Piece(bent(join(shoulder, *tines), scoop), metal)]


def spoon(rng: Rng) -> list[Piece]:
    """An oval bowl on a slender handle."""
    length, long, wide = (
        rng.uniform(0.1, 0.13),
        rng.uniform(0.028, 0.034),
        rng.uniform(0.018, 0.022),
    )
    metal = steel(rng)
    shell = _bowl(long, wide, depth=rng.uniform(0.008, 0.012))
    shell.apply_translation((length + long * 0.92, 0, 0.004))
    return [*_handle(rng, length, metal), Piece(shell, metal)]


def knife(rng: Rng) -> list[Piece]:
    """A kitchen knife: a broad pointed blade, a riveted handle."""
    grip, blade, wide = (
        rng.uniform(0.095, 0.115),
        rng.uniform(0.11, 0.16),
        rng.uniform(0.016, 0.022),
    )
    angle = np.linspace(0, np.pi / 2, 10)
    edge = [(grip + blade * (0.45 + 0.55 * np.sin(a)), wide - 2 * wide * np.cos(a)) for a in angle]
    outline = [(grip - 0.01, wide), (grip - 0.004, -wide), *edge]
    steel_blade = plate(Polygon(outline).buffer(0), 0.002)
    path = curve([(0, wide * 0.2, 0), (0.35 * grip, wide * 0.45, 0), (grip, wide * 0.45, 0)], 14)
    thick = np.interp(
        np.linspace(0, 1, 14), (0, 0.08, 0.4, 0.85, 1), (0.009, 0.012, 0.0105, 0.011, 0.012)
    )
    cover = (
        wood(rng) if rng.random() < 0.45 else (rubber(rng) if rng.random() < 0.6 else plastic(rng))
    )
    rivets = [
        tube([(x * grip, wide * 0.4, -0.0092), (x * grip, wide * 0.4, 0.0092)], 0.0025, 12)
        for x in (0.2, 0.5, 0.8)
    ]
    metal = steel(rng)
    return [
        Piece(steel_blade, metal),
        Piece(tube(path, thick, 16, flat=0.75), cover),
        Piece(join(*rivets), steel(rng)),
    ]


def _handle(rng: Rng, length: float, metal: Material) -> list[Piece]:
    end = rng.uniform(0.0075, 0.01)
    outline = stroke(
        [(end, 0, end), (0.35 * length, 0, 0.006), (0.8 * length, 0, 0.003), (length, 0, 0.0034)],
        14,
    )
    bow = rng.uniform(0.004, 0.008)
    pieces = [Piece(_arched(plate(outline, 0.0028), length, bow), metal)]
    if rng.random() < 0.3:
        cover = plate(stroke([(end, 0, end * 1.15), (0.5 * length, 0, 0.0075)], 8), 0.008)
        pieces.append(Piece(_arched(cover, length, bow), plastic(rng)))
    return pieces


def _arched(mesh: Trimesh, length: float, bow: float) -> Trimesh:
    points, faces = trimesh.remesh.subdivide_to_size(mesh.vertices, mesh.faces, 0.012)
    fine = Trimesh(points, faces)
    return bent(fine, lambda x: bow * np.sin(np.pi * np.clip(x / length, 0, 1)))


def _scoop(start: float, end: float, height: float) -> Callable[[np.ndarray], np.ndarray]:
    def lift(x: np.ndarray) -> np.ndarray:
        t = np.clip((x - start) / (end - start), 0, 1)
        return height * (t * t - 0.75 * t)

    return lift


def _bowl(long: float, wide: float, depth: float) -> Trimesh:
    """A shell: an ellipse that shrinks as it sinks, outside and inside."""
    angle = np.linspace(0, 2 * np.pi, 32, endpoint=False)
    oval = np.stack([long * np.cos(angle), wide * np.sin(angle) * (1 - 0.18 * np.cos(angle))], 1)
    wall = 0.0012
    sink = np.linspace(np.pi / 2 - 0.05, 0, 7)
    outside = [(np.cos(a), -depth * np.sin(a)) for a in sink]
    inside = [(np.cos(a) * 0.96, wall - depth * np.sin(a) * 0.96) for a in sink[::-1]]
    rings = [
        np.column_stack([oval * share, np.full(len(oval), z)]) for share, z in outside + inside
    ]
    return loft(np.array(rings))
