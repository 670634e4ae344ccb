# SPDX-License-Identifier: Apache-2.0
"""What a mesh needs beyond its triangles to look real: smooth normals and texture coordinates."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import trimesh
from scipy import sparse

CREASE_DEGREES = 38.0  # faces that meet at a larger angle keep a visible edge
_cache: WeakKeyDictionary = WeakKeyDictionary()


@dataclass(frozen=True)
class Corners:
    """A mesh as independent triangle corners: three consecutive rows are one face."""

    positions: np.ndarray  # [3F, 3]
    normals: np.ndarray  # [3F, 3], unit
    faces: np.ndarray  # [3F, 3], the unit normal of the flat face, for texture projection

    def moved(self, pose: np.ndarray) -> "Corners":
        """The same corners after a rigid motion, a 4x4 matrix."""
        turn, shift = pose[:3, :3], pose[:3, 3]
        return Corners(self.positions @ turn.T + shift, self.normals @ turn.T, self.faces)


def corners(mesh: trimesh.Trimesh) -> Corners:
    """The corners of a mesh, computed once for as long as the mesh lives unchanged."""
    if mesh not in _cache:
        _cache[mesh] = _split(mesh)
    return _cache[mesh]


def _split(mesh: trimesh.Trimesh) -> Corners:
    """Average at each corner the normals of those neighbours that bend less than the crease."""
    faces = np.asarray(mesh.faces)
    flat = np.asarray(mesh.face_normals)
    corner_vertex, corner_face = faces.ravel(), np.repeat(np.arange(len(faces)), 3)
    count = len(corner_vertex)
    at_vertex = sparse.csr_matrix(
        (np.ones(count), (np.arange(count), corner_vertex)), shape=(count, len(mesh.vertices))
    )
    pairs = (at_vertex @ at_vertex.T).tocoo()  # corners that share a vertex
    this, other = corner_face[pairs.row], corner_face[pairs.col]
    bend = np.einsum("ij,ij->i", flat[this], flat[other])
    keep = bend > np.cos(np.radians(CREASE_DEGREES))
    weights = sparse.csr_matrix(
        (np.asarray(mesh.area_faces)[other[keep]] + 1e-12, (pairs.row[keep], other[keep])),
        shape=(count, len(faces)),
    )
    normals = weights @ flat
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-20)
    return Corners(np.asarray(mesh.vertices)[corner_vertex], normals, flat[corner_face])


def project_texture(mesh: Corners, repeat: float) -> np.ndarray:
    """Texture coordinates by projection along each face's main axis; one repeat in metres."""
    axis = np.abs(mesh.faces).argmax(axis=1)
    across = np.array([[1, 2], [0, 2], [0, 1]])[axis]  # [3F, 2]
    return np.take_along_axis(mesh.positions, across, axis=1) / repeat
