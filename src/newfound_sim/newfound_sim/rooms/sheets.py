# SPDX-License-Identifier: Apache-2.0
"""The contact sheets of the documentation: rooms by building, and rooms by lighting."""

from __future__ import annotations

import numpy as np

from newfound_sim.contact_sheet import contact_sheet
from newfound_sim.rooms.images import room_image, view_image
from newfound_sim.rooms.names import BUILDINGS, CATEGORIES, LIGHTINGS
from newfound_sim.rooms.walk import walk

SIZE = (192, 144)


def rooms_sheet(
    each: int = 2, size: tuple[int, int] = SIZE, samples: int = 8, seed: int = 10
) -> np.ndarray:
    """A few rooms of every category in every building, under alternating light."""
    pictures, captions = [], []
    for building in BUILDINGS:
        for row in range(each):
            for category in CATEGORIES:
                lighting = ("cloudy", "sunny", "night")[row % 3]
                frame = room_image(building, lighting, category, seed + row, size, samples=samples)
                pictures.append(frame.rgb)
                captions.append(f"{building} {lighting}: {category.replace('_', ' ')}")
    return contact_sheet(pictures, captions, columns=len(CATEGORIES))


def lightings_sheet(size: tuple[int, int] = SIZE, samples: int = 8, seed: int = 21) -> np.ndarray:
    """One room of each building under the three lightings."""
    pictures, captions = [], []
    shown = ("living_room", "kitchen", "bedroom", "office")
    for lighting in LIGHTINGS:
        for building, category in zip(BUILDINGS, shown, strict=True):
            frame = room_image(building, lighting, category, seed, size, samples=samples)
            pictures.append(frame.rgb)
            captions.append(f"{building} {lighting}")
    return contact_sheet(pictures, captions, columns=len(BUILDINGS))


def walk_sheet(
    building: str = "townhouse",
    frames: int = 5,
    size: tuple[int, int] = (160, 120),
    samples: int = 8,
) -> np.ndarray:
    """Frames of a walk through a building, a row for each room."""
    pictures, captions = [], []
    for view, category, room in walk(building, "sunny", 3, frames, size):
        pictures.append(view_image(room, "sunny", view, samples=samples).rgb)
        captions.append(category.replace("_", " "))
    return contact_sheet(pictures, captions, columns=2 * frames)
