# SPDX-License-Identifier: Apache-2.0
"""The class of every pixel of a room: its surfaces and its furniture.

A scene of its own, one shape per class: the pictures' scene stays as it is, and so do its pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import trimesh

from newfound_sim.rendering import Part, Scene, View
from newfound_sim.rooms.room import Room, build_room, generator
from newfound_sim.rooms.shapes import Solid
from newfound_sim.rooms.shell import DARK_GLASS, window_panes
from newfound_sim.rooms.viewpoints import floor_map, random_view

# Pieces of furniture by class; what is in none is background.
_PIECES = {
    "cabinet": (
        *("sideboard", "dresser", "wardrobe", "kitchen_counter", "larder", "lockers"),
        *("night_stand", "bathroom_cabinet", "filing_cabinet"),
    ),
    "table": ("table", "coffee_table", "console_table", "desk"),
    "chair": ("armchair", "stool", "bench"),
    "shelf": ("bookshelf", "binder_shelf"),
    "bed": ("bed",),
    "sofa": ("sofa",),
    "lamp": ("ceiling_lamp", "floor_lamp"),
    "picture": ("picture", "poster", "notice_board", "whiteboard"),
    "curtain": ("curtain",),
    "rug": ("rug",),
    "plant": ("plant",),
    "television": ("television",),
    "fridge": ("fridge",),
    "toilet": ("toilet",),
    "bathtub": ("bathtub", "shower"),
    "washbasin": ("washbasin",),
}
SURFACES = ("wall", "floor", "ceiling", "door", "window")
CLASSES = ("background", *SURFACES, *_PIECES)  # by number in a mask
_NUMBERS = {name: number for number, name in enumerate(CLASSES)}
_OF_PIECE = {piece: _NUMBERS[name] for name, pieces in _PIECES.items() for piece in pieces}


class RoomMasks:
    """The classes of a room, to be seen from many views."""

    def __init__(self, room: Room) -> None:
        groups: dict[int, list[Solid]] = {}
        for solid in room.shell:
            groups.setdefault(_NUMBERS.get(solid.label, 0), []).append(solid)
        for pane in window_panes(room.plan, DARK_GLASS):
            groups.setdefault(_NUMBERS["window"], []).append(pane)
        for placed in room.furniture:
            of_piece = _OF_PIECE.get(placed.piece.name, 0)
            for solid in placed.solids():
                groups.setdefault(_NUMBERS.get(solid.label, of_piece), []).append(solid)
        self._scene = Scene([_part(solids, number) for number, solids in groups.items()], [])

    def mask(self, view: View) -> np.ndarray:
        """The number in `CLASSES` at each pixel's centre, uint8 [H, W]."""
        return self._scene.instances(view).astype(np.uint8)


def room_mask(
    building: str, category: str, seed: int, size: tuple[int, int] | int = 128, *, view: int = 0
) -> np.ndarray:
    """The mask of what `rooms.images.room_image` shows, under any lighting."""
    room = build_room(building, category, seed)
    wide, high = (size, size) if isinstance(size, int) else size
    rng = generator(building, category, seed, "view", view)
    return RoomMasks(room).mask(random_view(room, floor_map(room), rng, (wide, high)))


def _part(solids: Sequence[Solid], number: int) -> Part:
    offsets = np.cumsum([0, *(len(solid.vertices) for solid in solids[:-1])])
    vertices = np.concatenate([solid.vertices for solid in solids])
    faces = np.concatenate(
        [solid.faces + offset for solid, offset in zip(solids, offsets, strict=True)]
    )
    mesh = trimesh.Trimesh(vertices, faces, process=False)
    return Part(mesh, DARK_GLASS, instance=number)
