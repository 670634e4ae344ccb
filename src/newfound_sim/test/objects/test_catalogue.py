# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import trimesh

from newfound_sim.errors import ScenarioError
from newfound_sim.materials import Material
from newfound_sim.objects import CLASSES, COARSE, TOOLS, build
from newfound_sim.objects.catalogue import centre_of_mass, settle
from newfound_sim.objects.palette import Piece


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


def test_there_are_nine_tools_in_three_groups_and_many_other_classes():
    assert len(TOOLS) == 9
    groups = [COARSE[t] for t in TOOLS]
    assert {g: groups.count(g) for g in groups} == {"hammer": 3, "pliers": 3, "screwdriver": 3}
    assert len(CLASSES) >= 24


@pytest.mark.parametrize("label", CLASSES)
def test_an_instance_rests_on_the_table_and_has_a_sensible_size(label):
    for seed in (1, 2):
        model = build(label, seed)
        points = np.vstack([p.mesh.vertices for p in model.pieces])
        assert np.isfinite(points).all()
        assert points[:, 2].min() == pytest.approx(0, abs=1e-6)
        assert 0.04 < np.ptp(points, axis=0).max() < 0.45


@pytest.mark.parametrize("label", CLASSES)
def test_an_instance_is_in_equilibrium(label):
    """The centre of mass stands over the points that touch the table."""
    model = build(label, 3)
    points = np.vstack([p.mesh.vertices for p in model.pieces])
    touching = points[points[:, 2] < 2e-4][:, :2]
    centre = centre_of_mass(model.pieces)[:2]
    np.testing.assert_allclose(centre, 0, atol=1e-6)
    # Within the hull of the contacts: no direction in which all contacts lie on one side.
    angle = np.linspace(0, 2 * np.pi, 180, endpoint=False)
    reach = (touching @ np.stack([np.cos(angle), np.sin(angle)])).max(axis=0)
    assert reach.min() > -5e-4


def test_instances_of_a_class_differ_and_a_seed_always_builds_the_same():
    volumes = {round(sum(p.mesh.area for p in build("mug", s).pieces), 9) for s in range(8)}
    assert len(volumes) == 8
    first = build("mug", 5)
    build.cache_clear()
    again = build("mug", 5)
    for a, b in zip(first.pieces, again.pieces, strict=True):
        np.testing.assert_array_equal(a.mesh.vertices, b.mesh.vertices)
        assert a.material.colour == b.material.colour


def test_an_unknown_class_is_refused_with_the_known_ones():
    with pytest.raises(ScenarioError, match="claw_hammer"):
        build("hammmer", 0)
