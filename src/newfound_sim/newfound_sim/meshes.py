# SPDX-License-Identifier: Apache-2.0
"""Mesh primitives in metres: lathe, sweep, loft, cut; smooth normals and texture coordinates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np
import shapely
import trimesh
from scipy import sparse
from scipy.interpolate import PchipInterpolator
from trimesh import Trimesh

Rows = Sequence[Sequence[float]] | np.ndarray
CREASE_DEGREES = 38.0  # faces that meet at a larger angle keep a visible edge
_cache: WeakKeyDictionary = WeakKeyDictionary()


def curve(points: Rows, count: int = 24) -> np.ndarray:
    """A smooth line through the points, which never overshoots them."""
    p = np.asarray(points, float)
    along = np.r_[0, np.cumsum(np.linalg.norm(np.diff(p, axis=0), axis=1))]
    return PchipInterpolator(along, p)(np.linspace(0, along[-1], count))


def loft(rings: np.ndarray, capped: bool = True) -> Trimesh:
    """Skin over rings [R, K, 3] of equally many points, closed at both ends."""
    count, size = rings.shape[:2]
    index = np.arange(count * size).reshape(count, size)
    a, b = index[:-1], np.roll(index, -1, axis=1)[:-1]
    c, d = index[1:], np.roll(index, -1, axis=1)[1:]
    faces = [np.stack([a, b, d], -1).reshape(-1, 3), np.stack([a, d, c], -1).reshape(-1, 3)]
    points = rings.reshape(-1, 3)
    if capped:
        middles = np.stack([rings[0].mean(axis=0), rings[-1].mean(axis=0)])
        first, last = np.full(size, len(points)), np.full(size, len(points) + 1)
        points = np.vstack([points, middles])
        faces.append(np.stack([np.roll(index[0], -1), index[0], first], -1))
        faces.append(np.stack([index[-1], np.roll(index[-1], -1), last], -1))
    mesh = Trimesh(points, np.vstack(faces), process=False)
    mesh.merge_vertices()
    mesh.update_faces(mesh.nondegenerate_faces())
    if mesh.volume < 0:
        mesh.invert()
    return mesh


def lathe(profile: Rows, sections: int = 32, lobes: int = 0, depth: float = 0.0) -> Trimesh:
    """Turn a profile of (radius, z) about the z axis; lobes flute it like a tool's handle.

    A profile that begins and ends on the axis, or where it began, encloses a solid.
    """
    p = np.asarray(profile, float)
    angle = np.linspace(0, 2 * np.pi, sections, endpoint=False)
    swell = 1 + depth * np.cos(lobes * angle) if lobes else np.ones(sections)
    x = p[:, :1] * (np.cos(angle) * swell)
    y = p[:, :1] * (np.sin(angle) * swell)
    z = np.repeat(p[:, 1:2], sections, axis=1)
    return loft(np.stack([x, y, z], axis=-1), capped=False)


def tube(
    path: Rows,
    radius: float | Sequence[float] | np.ndarray,
    sections: int = 14,
    flat: float = 1.0,
    ring: bool = False,
) -> Trimesh:
    """Sweep a circle along a path; `radius` may change along it.

    `flat` scales the section in the direction nearest to z. A ring joins its end to its start.
    """
    p = np.asarray(path, float)
    around = np.roll(p, -1, axis=0) - np.roll(p, 1, axis=0)
    tangent = around if ring else np.gradient(p, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    side = _frames(tangent)
    top = np.cross(tangent, side)
    r = np.broadcast_to(np.asarray(radius, float).reshape(-1, 1), (len(p), 1))
    angle = np.linspace(0, 2 * np.pi, sections, endpoint=False)
    section = np.cos(angle)[None, :, None] * side[:, None]
    section = section + flat * np.sin(angle)[None, :, None] * top[:, None]
    rings = p[:, None] + r[..., None] * section
    if ring:
        rings = np.concatenate([rings, rings[:1]])
    return loft(rings, capped=not ring)


def _frames(tangent: np.ndarray) -> np.ndarray:
    """A direction across the path at each point, turning with it as little as possible."""
    start = np.array([0, 0, 1.0]) if abs(tangent[0, 2]) < 0.9 else np.array([0, 1.0, 0])
    side = np.empty_like(tangent)
    across = np.cross(start, tangent[0])
    for i, t in enumerate(tangent):
        across = across - t * (across @ t)
        across = across / np.linalg.norm(across)
        side[i] = across
    return side


def stroke(points: Rows, steps: int = 1) -> shapely.Polygon:
    """The outline of a thick line through (x, y, half-width), smoothed if steps > 1."""
    p = np.asarray(points, float)
    if steps > 1:
        p = curve(p, steps)
    discs = [shapely.Point(x, y).buffer(w, quad_segs=6) for x, y, w in p]
    hulls = [shapely.union(a, b).convex_hull for a, b in pairwise(discs)]
    return shapely.union_all(hulls)


def disc(x: float, y: float, radius: float, segments: int = 8) -> shapely.Polygon:
    """A round outline."""
    return shapely.Point(x, y).buffer(radius, quad_segs=segments)


def plate(outline: shapely.Geometry, thickness: float) -> Trimesh:
    """A flat piece with the given outline, its middle plane at z = 0."""
    pieces = [trimesh.creation.extrude_polygon(p, thickness) for p in shapely.get_parts(outline)]
    return moved(join(*pieces), z=-thickness / 2)


def block(size: Sequence[float], bevel: float = 0.0) -> Trimesh:
    """A box about the origin with broken edges."""
    half = np.asarray(size, float) / 2
    signs = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T
    points = np.vstack([signs * (half - bevel * (1 - axis)) for axis in np.eye(3)])
    return trimesh.convex.convex_hull(points)


def ball(radius: float, squash: Sequence[float] = (1, 1, 1), detail: int = 3) -> Trimesh:
    """A sphere, or an ellipsoid."""
    mesh = trimesh.creation.icosphere(subdivisions=detail, radius=radius)
    mesh.apply_scale(squash)
    return mesh


def cut(mesh: Trimesh, *tools: Trimesh) -> Trimesh:
    """What remains of a mesh without the tools."""
    return trimesh.boolean.difference([mesh, *tools], engine="manifold")


def join(*meshes: Trimesh) -> Trimesh:
    """Several meshes of the same material as one; they may pass through each other."""
    joined = trimesh.util.concatenate(list(meshes))
    assert isinstance(joined, Trimesh)
    return joined


def moved(mesh: Trimesh, x: float = 0, y: float = 0, z: float = 0) -> Trimesh:
    """A shifted copy."""
    return mesh.copy().apply_translation((x, y, z))


def turned(mesh: Trimesh, axis: str, degrees: float) -> Trimesh:
    """A copy turned about an axis of the origin."""
    direction = {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}[axis]
    matrix = trimesh.transformations.rotation_matrix(np.radians(degrees), direction)
    return mesh.copy().apply_transform(matrix)


def mirrored(mesh: Trimesh) -> Trimesh:
    """A copy mirrored in y."""
    return mesh.copy().apply_transform(np.diag([1.0, -1, 1, 1]))


def along_x(mesh: Trimesh) -> Trimesh:
    """A copy whose z axis has become the x axis: turned things that lie."""
    return turned(mesh, "y", 90)


def bent(mesh: Trimesh, height: Callable[[np.ndarray], np.ndarray]) -> Trimesh:
    """A copy lifted by height(x): gives flat things their curve."""
    mesh = mesh.copy()
    mesh.vertices = mesh.vertices + np.outer(height(mesh.vertices[:, 0]), (0, 0, 1))
    return mesh


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
