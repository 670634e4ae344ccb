# SPDX-License-Identifier: Apache-2.0
"""How an object comes to rest: it rolls over its convex hull until its weight is supported."""

from collections.abc import Sequence

import numpy as np

from newfound_sim.meshes import join
from newfound_sim.objects.piece import Piece

METAL_DENSITY = 4.0  # relative to plastic and wood; enough to let heads weigh more than handles


def centre_of_mass(pieces: Sequence[Piece]) -> np.ndarray:
    """Of the pieces' hulls, metal counted heavier."""
    hulls = [piece.mesh.convex_hull for piece in pieces]
    heavy = [METAL_DENSITY if "metal" in piece.material.kind else 1.0 for piece in pieces]
    mass = np.array([hull.volume * d for hull, d in zip(hulls, heavy, strict=True)])
    return mass @ np.array([hull.center_mass for hull in hulls]) / mass.sum()


def settle(pieces: Sequence[Piece], turn: np.ndarray) -> np.ndarray:
    """The 4x4 pose in which the object, dropped in orientation `turn` (3x3), lies still.

    The object stands on the facet of its hull that the plumb line from its centre of mass
    meets. If the centre is not above that facet it tips over an edge: the facet's normal
    becomes the new plumb line. Its height falls with every step, so this ends.
    """
    hull = join(*(piece.mesh for piece in pieces)).convex_hull
    centre = centre_of_mass(pieces)
    normals = hull.face_normals
    distance = np.einsum("ij,ij->i", normals, hull.triangles[:, 0] - centre)
    down = turn.T @ np.array([0, 0, -1.0])
    for _ in range(100):
        slope = normals @ down
        travel = np.where(slope > 1e-9, distance / np.maximum(slope, 1e-9), np.inf)
        facet = normals[travel.argmin()]
        if facet @ down > 1 - 1e-6:
            break
        down = facet
    pose = np.eye(4)
    pose[:3, :3] = _rotation_between(turn @ down, np.array([0, 0, -1.0])) @ turn
    low = (hull.vertices @ pose[:3, :3].T)[:, 2].min()
    pose[:3, 3] = (*-(pose[:3, :3] @ centre)[:2], -low)
    return pose


def _rotation_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smallest turn that takes unit vector a to b (Rodrigues' formula)."""
    cosine, axis = a @ b, np.cross(a, b)
    if cosine < -1 + 1e-9:
        return np.diag([1.0, -1.0, -1.0])
    cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + cross + cross @ cross / (1 + cosine)
