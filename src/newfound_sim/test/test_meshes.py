# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import shapely
import trimesh

from newfound_sim import meshes as m
from newfound_sim.meshes import corners, project_texture


def test_a_turned_rectangle_is_a_cylinder():
    mesh = m.lathe([(0, 0), (0.5, 0), (0.5, 2), (0, 2)], sections=256)
    assert mesh.is_watertight
    assert mesh.volume == pytest.approx(np.pi * 0.25 * 2, rel=1e-3)


def test_a_closed_profile_off_the_axis_is_a_ring():
    profile = [(1, 0), (2, 0), (2, 1), (1, 1), (1, 0)]
    ring = m.lathe(profile, sections=256)
    assert ring.is_watertight
    assert ring.volume == pytest.approx(np.pi * 3, rel=1e-3)
    assert ring.euler_number == 0  # one hole


def test_a_tube_has_the_volume_of_its_length():
    mesh = m.tube([(0, 0, 0), (1, 0, 0), (3, 0, 0)], 0.1, sections=128)
    assert mesh.is_watertight
    assert mesh.volume == pytest.approx(np.pi * 0.01 * 3, rel=1e-2)


def test_a_flat_tube_is_thin_towards_z():
    mesh = m.tube([(0, 0, 0), (1, 0, 0)], 0.1, sections=32, flat=0.5)
    assert np.ptp(mesh.vertices[:, 2]) == pytest.approx(0.1, rel=0.01)
    assert np.ptp(mesh.vertices[:, 1]) == pytest.approx(0.2, rel=0.01)


def test_a_stroke_covers_its_line_with_its_width():
    outline = m.stroke([(0, 0, 0.5), (4, 0, 0.5)])
    assert outline.area == pytest.approx(4 + np.pi * 0.25, rel=0.02)
    assert outline.contains(shapely.Point(2, 0.49))
    assert not outline.contains(shapely.Point(2, 0.51))


def test_a_curve_passes_through_its_ends_and_never_overshoots():
    line = m.curve([(0, 0), (1, 1), (2, 1), (3, 0)], 50)
    np.testing.assert_allclose(line[[0, -1]], [(0, 0), (3, 0)], atol=1e-12)
    assert line[:, 1].max() <= 1 + 1e-12


def test_cutting_removes_volume():
    cube = m.block((1, 1, 1))
    half = m.cut(cube, m.moved(m.block((1, 2, 2)), x=0.5))
    assert half.volume == pytest.approx(0.5)


def test_a_plate_of_two_outlines_is_centred_on_its_plane():
    outline = m.disc(0, 0, 1).union(m.disc(5, 0, 1))
    plate = m.plate(outline, 0.2)
    np.testing.assert_allclose(plate.bounds[:, 2], (-0.1, 0.1))


def test_a_sphere_is_shaded_by_its_radius():
    ball = trimesh.creation.icosphere(3)
    found = corners(ball)
    outward = found.positions / np.linalg.norm(found.positions, axis=1, keepdims=True)
    assert np.einsum("ij,ij->i", found.normals, outward).min() > 0.999


def test_a_cube_keeps_its_edges():
    found = corners(trimesh.creation.box((1, 1, 1)))
    np.testing.assert_allclose(np.abs(found.normals).max(axis=1), 1)
    np.testing.assert_allclose(found.normals, found.faces, atol=1e-12)


def test_texture_repeats_by_metres_on_every_side():
    found = corners(trimesh.creation.box((4, 2, 1)))
    uv = project_texture(found, repeat=0.5)
    top = found.faces[:, 2] > 0.5
    np.testing.assert_allclose(np.ptp(uv[top], axis=0), (8, 4))


def test_a_changed_mesh_is_not_served_from_the_cache():
    mesh = trimesh.creation.box((1, 1, 1))
    before = corners(mesh).positions.max()
    mesh.apply_scale(3)
    assert corners(mesh).positions.max() == 3 * before


def test_moving_turns_normals_and_shifts_positions():
    pose = trimesh.transformations.rotation_matrix(np.pi / 2, (0, 0, 1))
    pose[:3, 3] = (10, 0, 0)
    found = corners(trimesh.creation.box((2, 1, 1)))
    moved = found.moved(pose)
    np.testing.assert_allclose(np.ptp(moved.positions, axis=0), (1, 2, 1))
    assert moved.positions[:, 0].mean() == 10
