# SPDX-License-Identifier: Apache-2.0
import numpy as np
import trimesh
from newfound_sim.shading import corners, project_texture


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
