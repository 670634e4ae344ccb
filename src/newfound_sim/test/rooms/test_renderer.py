# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import trimesh

from newfound_sim.errors import SimulationError
from newfound_sim.lights import Panel
from newfound_sim.materials import Material, linear
from newfound_sim.rendering import Part, View
from newfound_sim.rooms.renderer import RoomScene, room_parts
from newfound_sim.rooms.room import build_room, illuminate

VIEW = View(eye=(0, -2, 1), target=(0, 0, 1), width=33, height=25, fov_degrees=60)
COLOUR = (0.7, 0.4, 0.2)
BEHIND = Panel((0, 9, 1), (0, 99, 1), 1.0, 1.0, (1.0, 1.0, 1.0))  # lights nothing that is seen


def wall_at(y):
    mesh = trimesh.creation.box((20, 0.1, 20))
    mesh.apply_translation((0, y + 0.05, 0))
    return Part(mesh, Material("diffuse", COLOUR))


def test_depth_is_the_distance_along_the_optical_axis():
    frame = RoomScene([wall_at(1.0)], [BEHIND], (0.1, 0.1, 0.1)).render(VIEW, samples=1)
    np.testing.assert_allclose(frame.depth, 3.0, atol=1e-3)


def test_without_lamps_a_surface_shows_its_colour_times_the_glow_and_no_noise():
    glow = (0.1, 0.2, 0.4)
    frame = RoomScene([wall_at(1.0)], [BEHIND], glow).render(VIEW, samples=1, denoise=False)
    expected = linear(COLOUR) * glow
    np.testing.assert_allclose(frame.rgb, np.broadcast_to(expected, frame.rgb.shape), rtol=1e-3)


def test_a_room_without_any_light_is_refused():
    with pytest.raises(SimulationError, match="needs a light"):
        RoomScene([wall_at(1.0)], [], (0.1, 0.1, 0.1))


def test_a_lamp_adds_what_lambert_says():
    lamp = Panel((0, -3, 1), (0, 1, 1), 0.2, 0.2, (50.0, 50.0, 50.0))
    glow = (0.1, 0.1, 0.1)
    frame = RoomScene([wall_at(1.0)], [lamp], glow).render(VIEW, samples=64, denoise=False)
    # The wall's point opposite the lamp: albedo / pi * radiance * area / distance^2, plus glow.
    expected = linear(COLOUR) * (50 * 0.04 / 16 / np.pi + 0.1)
    np.testing.assert_allclose(frame.rgb[12, 16], expected, rtol=0.03)


def test_the_denoiser_keeps_the_mean_light():
    lamp = Panel((0, -3, 3), (0, 1, 1), 1.0, 1.0, (9.0, 9.0, 9.0))
    scene = RoomScene([wall_at(1.0)], [lamp], (0.1, 0.1, 0.1))
    noisy = scene.render(VIEW, samples=4, denoise=False).rgb
    smooth = scene.render(VIEW, samples=4).rgb
    assert smooth.mean() == pytest.approx(noisy.mean(), rel=0.05)
    assert smooth.std() < noisy.std()


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
