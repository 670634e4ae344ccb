# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import trimesh
from newfound_sim.materials import Material
from newfound_sim.rooms import shapes

RED = Material("diffuse", (0.8, 0.1, 0.1))


def mesh(solid):
    return trimesh.Trimesh(solid.vertices, solid.faces)


def test_a_box_stands_on_its_base_and_is_closed_with_faces_outwards():
    found = mesh(shapes.box(RED, (1, 2, 3), (2, 4, 6)))
    np.testing.assert_allclose(found.bounds, [[0, 0, 3], [2, 4, 9]])
    assert found.is_watertight
    assert found.volume == pytest.approx(48)


def test_a_cushion_fills_its_box_but_for_the_rounded_edges():
    found = mesh(shapes.cushion(RED, (0, 0, 0), (1, 0.6, 0.4), 0.1))
    np.testing.assert_allclose(found.extents, [1, 0.6, 0.4], atol=1e-9)
    inner = trimesh.creation.box((0.8, 0.4, 0.2)).volume
    assert inner < found.volume < 1 * 0.6 * 0.4
    assert found.is_watertight


def test_a_cylinder_has_the_volume_of_its_polygon():
    found = mesh(shapes.cylinder(RED, (0, 0, 0), 0.5, 2.0))
    polygon = 24 / 2 * 0.5**2 * np.sin(2 * np.pi / 24)
    assert found.volume == pytest.approx(2 * polygon)


def test_a_rod_reaches_from_end_to_end():
    found = mesh(shapes.rod(RED, (0, 0, 0), (3, 0, 4), 0.01))
    np.testing.assert_allclose(found.bounds, [[0, 0, 0], [3, 0, 4]], atol=0.011)
    assert np.ptp(found.vertices @ [0.6, 0, 0.8]) == pytest.approx(5)


def test_turning_by_a_right_angle_takes_x_to_y():
    turned = shapes.box(RED, (1, 0, 0), (0.2, 0.4, 0.1)).turned(90)
    np.testing.assert_allclose(turned.vertices.mean(axis=0)[:2], [0, 1], atol=1e-9)


def test_a_picture_is_painted_from_the_lower_edge_upwards():
    image = np.zeros((10, 20, 3), np.uint8)
    image[:5] = 255  # white above, black below
    texture = shapes.picture(image, (0, 0, 0), (2.0, 1.0)).finish.texture
    assert texture.repeat == 2.0
    assert texture.image[5].max() == 0
    assert texture.image[100, :, 0].min() == 255
    assert texture.image[140].max() == 0  # the square's other half is not shown
