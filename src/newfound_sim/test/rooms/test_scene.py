# SPDX-License-Identifier: Apache-2.0
import numpy as np
from newfound_sim.materials import Material
from newfound_sim.rooms.lighting import illuminate
from newfound_sim.rooms.room import build_room
from newfound_sim.rooms.scene import room_parts


def test_parts_hold_every_triangle_of_the_room_and_share_finishes():
    room = build_room("cottage", "office", 0)
    light = illuminate(room, "night")
    parts = room_parts(room, light)
    solids = [*room.shell, *light.panes, *(s for p in room.furniture for s in p.solids())]
    assert sum(len(part.mesh.faces) for part in parts) == sum(len(s.faces) for s in solids)
    plain = [part for part in parts if part.material.texture is None]
    assert len({id(part.material) for part in plain}) == len(plain)


def test_pictures_keep_their_place_in_the_room():
    room = build_room("institute", "office", 0)
    pictures = [s for p in room.furniture for s in p.solids() if s.is_picture]
    parts = room_parts(room, illuminate(room, "cloudy"))
    placed = {
        id(part.material): part.mesh.vertices @ part.pose[:3, :3].T + part.pose[:3, 3]
        for part in parts
    }
    assert pictures
    for solid in pictures:
        np.testing.assert_allclose(placed[id(solid.finish)], solid.vertices, atol=1e-9)


def test_lamps_become_one_light_when_they_are_on():
    room = build_room("institute", "corridor", 0)
    parts = room_parts(room, illuminate(room, "night"))
    lit = [part for part in parts if part.material.kind == "emitter"]
    assert len(lit) == 1
    assert isinstance(lit[0].material, Material)
