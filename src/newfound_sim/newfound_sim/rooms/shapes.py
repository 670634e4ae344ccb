# SPDX-License-Identifier: Apache-2.0
"""Building blocks of furniture: boxes, rods, cushions, turned shapes, each with a finish.

Lengths are metres, z is up. `at` is the middle of a shape's base unless it says otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import cv2
import numpy as np
import trimesh

from newfound_sim.materials import Material, Texture

Point = tuple[float, float, float]

_BOX_CORNERS = np.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1)], float)
_BOX_CORNERS -= [0.5, 0.5, 0.0]
_BOX_FACES = np.array(
    [
        *([0, 2, 3], [0, 3, 1], [4, 5, 7], [4, 7, 6], [0, 1, 5], [0, 5, 4]),
        *([2, 6, 7], [2, 7, 3], [0, 4, 6], [0, 6, 2], [1, 3, 7], [1, 7, 5]),
    ]
)


@dataclass(frozen=True, eq=False)
class Solid:
    """A triangle mesh with one finish."""

    vertices: np.ndarray  # [V, 3]
    faces: np.ndarray  # [F, 3], counter-clockwise from outside
    finish: Material
    lamp: bool = False  # shines when lamps are on
    is_picture: bool = False  # a rectangle that shows its whole texture, made by `picture`
    label: str = ""  # its class in masks, where that is not the piece's: wall, floor, door, chair

    def moved(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Solid:
        """The same solid, shifted."""
        return replace(self, vertices=self.vertices + np.array([x, y, z]))

    def turned(self, degrees: float) -> Solid:
        """The same solid, turned counter-clockwise about the vertical axis through the origin."""
        angle = np.radians(degrees)
        c, s = np.cos(angle), np.sin(angle)
        turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        return replace(self, vertices=self.vertices @ turn.T)


def named(label: str, solids: Sequence[Solid]) -> list[Solid]:
    """The same solids, of a class in masks."""
    return [replace(solid, label=label) for solid in solids]


def box(finish: Material, at: Point, size: Point) -> Solid:
    """An upright box."""
    return Solid(_BOX_CORNERS * size + at, _BOX_FACES, finish)


def panel(finish: Material, at: Point, size: Point, lean: float = 0.0) -> Solid:
    """A thin box that leans back by `lean` degrees about its lower edge."""
    solid = box(finish, (0.0, 0.0, 0.0), size)
    angle = np.radians(lean)
    c, s = np.cos(angle), np.sin(angle)
    tilt = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    return replace(solid, vertices=solid.vertices @ tilt.T + at)


def picture(image: np.ndarray, at: Point, size: tuple[float, float], shine: bool = False) -> Solid:
    """An upright rectangle facing +y that shows an image [H, W, 3] once, unmirrored."""
    w, h = size
    corners = np.array([[w / 2, 0, 0], [-w / 2, 0, 0], [-w / 2, 0, h], [w / 2, 0, h]])
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    # Textures repeat in squares: the image fills the part of one square that is seen.
    side, pixels = max(w, h), 256
    wide, high = max(round(pixels * w / side), 1), max(round(pixels * h / side), 1)
    canvas = np.zeros((pixels, pixels, 3), np.uint8)
    fitted = cv2.resize(image, (wide, high), interpolation=cv2.INTER_AREA)
    canvas[:high, :wide] = fitted[::-1]  # texture rows are counted from the lower edge
    finish = Material(
        "plastic" if shine else "diffuse", (0.5, 0.5, 0.5), None, Texture(canvas, side)
    )
    return Solid(corners + at, faces, finish, is_picture=True)


def laid_flat(image: np.ndarray, at: Point, size: tuple[float, float]) -> Solid:
    """A level rectangle that shows an image once, its lower edge towards -y."""
    upright = picture(image, (0, 0, 0), size)
    w, h = size
    corners = np.array([[-w / 2, -h / 2, 0], [w / 2, -h / 2, 0], [w / 2, h / 2, 0]])
    corners = np.vstack([corners, [[-w / 2, h / 2, 0]]])
    return replace(upright, vertices=corners + at)


def cushion(finish: Material, at: Point, size: Point, radius: float = 0.06) -> Solid:
    """A box with rounded edges and corners."""
    extent = np.asarray(size, float)
    radius = min(radius, 0.49 * float(extent.min()))
    ball_vertices, faces, corner = _rounded_cube()
    inner = extent / 2 - radius
    vertices = ball_vertices * radius + corner * inner + [0, 0, extent[2] / 2]
    return Solid(vertices + at, faces, finish)


def revolve(finish: Material, at: Point, profile: Sequence[tuple[float, float]]) -> Solid:
    """A turned shape: (radius, height) pairs from bottom to top spun about the vertical."""
    rings = np.asarray(profile, float)
    sides = 24
    angles = np.linspace(0, 2 * np.pi, sides, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    vertices = np.concatenate([np.column_stack([circle * r, np.full(sides, z)]) for r, z in rings])
    faces = np.concatenate([_ring(i * sides, sides) for i in range(len(rings) - 1)])
    vertices, faces = _capped(vertices, faces, rings, sides)
    return Solid(vertices + at, faces, finish)


def cylinder(finish: Material, at: Point, radius: float, height: float) -> Solid:
    """An upright cylinder."""
    return revolve(finish, at, [(radius, 0), (radius, height)])


def rod(finish: Material, start: Point, end: Point, radius: float) -> Solid:
    """A straight round bar between two points."""
    a, b = np.asarray(start, float), np.asarray(end, float)
    length = float(np.linalg.norm(b - a))
    bar = cylinder(finish, (0, 0, 0), radius, length)
    turn = trimesh.geometry.align_vectors([0, 0, 1], (b - a) / length)[:3, :3]
    return replace(bar, vertices=bar.vertices @ turn.T + a)


def rods(finish: Material, points: Sequence[Point], radius: float) -> list[Solid]:
    """A bent bar through the given points."""
    pairs = itertools.pairwise(points)
    return [rod(finish, a, b, radius) for a, b in pairs]


def ellipsoid(finish: Material, middle: Point, radii: Point) -> Solid:
    """A ball stretched along the axes; `middle` is its centre."""
    vertices, faces = _unit_ball()
    return Solid(vertices * radii + middle, faces, finish)


def leaf(finish: Material, root: Point, tip: Point, width: float) -> Solid:
    """A bent blade from root to tip, visible from both sides."""
    a, b = np.asarray(root, float), np.asarray(tip, float)
    side = np.cross(b - a, [0, 0, 1.0])
    side *= width / 2 / max(float(np.linalg.norm(side)), 1e-6)
    middle = a + 0.55 * (b - a) + [0, 0, 0.25 * float(np.linalg.norm((b - a)[:2]))]
    vertices = np.array([a, middle - side, middle + side, b])
    return Solid(vertices, np.array([[0, 1, 2], [1, 3, 2], [0, 2, 1], [1, 2, 3]]), finish)


def _ring(first: int, sides: int) -> np.ndarray:
    """Triangles between a ring of vertices and the next ring."""
    i = np.arange(sides)
    j = (i + 1) % sides
    lower = np.stack([first + i, first + j, first + sides + j], axis=1)
    upper = np.stack([first + i, first + sides + j, first + sides + i], axis=1)
    return np.concatenate([lower, upper])


def _capped(
    vertices: np.ndarray, faces: np.ndarray, rings: np.ndarray, sides: int
) -> tuple[np.ndarray, np.ndarray]:
    """Close the first and the last ring with flat discs of their own vertices."""
    i = np.arange(sides)
    j = (i + 1) % sides
    top = (len(rings) - 1) * sides
    for ring, z, order in ((0, rings[0, 1], -1), (top, rings[-1, 1], 1)):
        first = len(vertices)
        vertices = np.concatenate([vertices, vertices[ring : ring + sides], [[0, 0, z]]])
        fan = np.stack([first + i, first + j, np.full(sides, first + sides)], axis=1)
        faces = np.concatenate([faces, fan[:, ::order]])
    return vertices, faces


@lru_cache(maxsize=1)
def _unit_ball() -> tuple[np.ndarray, np.ndarray]:
    ball = trimesh.creation.icosphere(subdivisions=2)
    return np.asarray(ball.vertices), np.asarray(ball.faces)


@lru_cache(maxsize=1)
def _rounded_cube() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A ball cut into octants: unit vertices, hull faces and the corner each belongs to."""
    steps = 3  # 30 degrees between faces: below the crease angle, so they shade smoothly
    grid = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    octant = np.array(grid, float)
    octant = octant / np.linalg.norm(octant, axis=1, keepdims=True)
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
    vertices = np.concatenate([octant * corner for corner in corners])
    corner = np.repeat(corners, len(octant), axis=0)
    hull = trimesh.Trimesh(vertices + 3 * corner, process=False).convex_hull
    # The hull orders its vertices anew: find ours again by position.
    distance = np.linalg.norm((vertices + 3 * corner)[None] - hull.vertices[:, None], axis=2)
    return vertices, distance.argmin(axis=1)[hull.faces], corner
