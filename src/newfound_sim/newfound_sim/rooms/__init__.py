# SPDX-License-Identifier: Apache-2.0
"""Furnished rooms of four buildings in three lightings, and a robot's camera in them."""

from newfound_sim.rooms.images import room_image, view_image
from newfound_sim.rooms.names import BUILDINGS, CATEGORIES, LIGHTINGS, domain_name
from newfound_sim.rooms.room import Room, build_room
from newfound_sim.rooms.walk import walk

__all__ = [
    "BUILDINGS",
    "CATEGORIES",
    "LIGHTINGS",
    "Room",
    "build_room",
    "domain_name",
    "room_image",
    "view_image",
    "walk",
]
