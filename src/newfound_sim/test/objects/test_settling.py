# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import trimesh
from newfound_sim.materials import Material
from newfound_sim.objects.piece import Piece
from newfound_sim.objects.settling import centre_of_mass, settle


def test_metal_counts_heavier():
    wood = Piece(trimesh.creation.box((1, 1, 1)), Material("plastic"))
    head = trimesh.creation.box((1, 1, 1)).apply_translation((5, 0, 0))
    centre = centre_of_mass([wood, Piece(head, Material("rough_metal"))])
    np.testing.assert_allclose(centre, (4, 0, 0), atol=1e-9)  # 1 at 0 and 4 at 5


def test_a_box_dropped_at_an_angle_falls_on_its_nearest_stable_side():
    box = [Piece(trimesh.creation.box((0.1, 0.2, 0.3)), Material())]
    tilt = trimesh.transformations.rotation_matrix(np.radians(20), (1, 0, 0))[:3, :3]
    pose = settle(box, tilt)  # the 0.2 x 0.3 side view: 20 degrees is within its tipping angle
    placed = box[0].mesh.copy().apply_transform(pose)
    assert np.ptp(placed.vertices[:, 2]) == pytest.approx(0.3)
    tilt = trimesh.transformations.rotation_matrix(np.radians(50), (1, 0, 0))[:3, :3]
    placed = box[0].mesh.copy().apply_transform(settle(box, tilt))
    assert np.ptp(placed.vertices[:, 2]) == pytest.approx(0.2)


def test_a_thin_pole_that_leans_beyond_its_foot_falls_over():
    pole = [Piece(trimesh.creation.cylinder(0.01, 0.5), Material())]
    tilt = trimesh.transformations.rotation_matrix(np.radians(10), (1, 0, 0))[:3, :3]
    placed = pole[0].mesh.copy().apply_transform(settle(pole, tilt))
    assert np.ptp(placed.vertices[:, 2]) < 0.021
