# SPDX-License-Identifier: Apache-2.0
import hashlib
import subprocess
import sys

import numpy as np
import pytest
import trimesh
from newfound_sim.errors import ScenarioError, SimulationError
from newfound_sim.generate import crop
from newfound_sim.lights import Bulb, Dome
from newfound_sim.materials import Material
from newfound_sim.rendering import Part, Scene, View, render, use_threads

# A camera at the origin that looks along +y sees the world's x to the right and z up.
EYE, AHEAD = (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)


def placed(mesh, instance, label, at):
    pose = np.eye(4)
    pose[:3, 3] = at
    return Part(mesh, Material("diffuse"), instance, label, pose)


@pytest.fixture(scope="module")
def cube_and_wall():
    """A cube of 0.4 m, front face at 1.8 m, right of and above the axis; a wall at 3 m."""
    wall = placed(trimesh.creation.box((20, 0.2, 20)), 0, None, (0.37, 3.1, 0.11))
    cube = placed(trimesh.creation.box((0.4, 0.4, 0.4)), 5, "cube", (0.5, 2.0, 0.3))
    view = View(EYE, AHEAD, width=160, height=120, fov_degrees=70)
    return view, Scene([wall, cube], [Dome((1, 1, 1))]).render(view, samples=1)


def test_depth_is_measured_along_the_optical_axis_in_metres(cube_and_wall):
    _, frame = cube_and_wall
    wall = frame.depth[frame.instances == 0]
    # The whole wall is a plane across the axis: one depth, whatever the ray's length.
    np.testing.assert_allclose(wall, 3.0, atol=1e-4)
    assert frame.depth[frame.instances == 5].min() == pytest.approx(1.8, abs=1e-4)


def test_a_cube_is_seen_where_hand_worked_projection_puts_it(cube_and_wall):
    _, frame = cube_and_wall
    focal = 80 / np.tan(np.radians(35))
    # Corners of the front face and, for the left and lower border, of the back face as well:
    # the cube stands off axis, so its inner sides are seen up to the back edge.
    left = min(focal * 0.3 / d for d in (1.8, 2.2)) + 79.5
    right = focal * 0.7 / 1.8 + 79.5
    top = 59.5 - focal * 0.5 / 1.8
    bottom = 59.5 - min(focal * 0.1 / d for d in (1.8, 2.2))
    box = frame.boxes()[5]
    # A pixel belongs to the cube if its centre does: borders fall between pixel centres.
    assert box == (np.ceil(left), np.ceil(top), np.floor(right) + 1, np.floor(bottom) + 1)


def test_the_mask_of_a_sphere_matches_ray_sphere_intersection_to_a_pixel():
    centre, radius = np.array([-0.2, 2.0, 0.1]), 0.35
    ball = placed(trimesh.creation.icosphere(5, radius), 1, "ball", centre)
    view = View(EYE, AHEAD, width=96, height=72, fov_degrees=50)
    frame = render([ball], [Dome((1, 1, 1))], view, samples=1)
    focal = 48 / np.tan(np.radians(25))
    v, u = np.mgrid[:72, :96]
    rays = np.stack([(u - 47.5) / focal, np.ones_like(u, float), (35.5 - v) / focal], -1)
    b = rays @ centre
    a = (rays**2).sum(-1)
    root = b**2 - a * (centre @ centre - radius**2)
    expected = root > 0
    # The mesh is inscribed in the sphere, so only single pixels of the rim may differ.
    assert (expected != (frame.instances == 1)).sum() <= 6
    both = expected & (frame.instances == 1) & (root > 0.05)
    along_axis = ((b - np.sqrt(np.maximum(root, 0))) / a)[both]
    np.testing.assert_allclose(frame.depth[both], along_axis, atol=2e-3)


def test_projection_agrees_with_what_is_rendered(cube_and_wall):
    view, frame = cube_and_wall
    u, v = view.project(np.array([[0.5, 1.8, 0.3]]))[0]
    assert frame.instances[round(v), round(u)] == 5
    assert frame.instances[round(v), round(u) + 40] == 0
    np.testing.assert_allclose(view.project(np.array([[0, 5.0, 0]]))[0], (79.5, 59.5))


def test_nothing_hit_is_infinitely_far():
    ball = placed(trimesh.creation.icosphere(1, 0.1), 1, "ball", (0, 2, 0))
    frame = render([ball], [Dome((1, 1, 1))], View(EYE, AHEAD, 16, 16), samples=1)
    assert np.isinf(frame.depth[0, 0])
    assert frame.instances[0, 0] == 0


def test_a_hidden_object_has_a_label_but_no_box():
    front = placed(trimesh.creation.box((4, 0.1, 4)), 1, "screen", (0, 1, 0))
    behind = placed(trimesh.creation.box((0.1, 0.1, 0.1)), 2, "hidden", (0, 3, 0))
    frame = render([front, behind], [Dome((1, 1, 1))], View(EYE, AHEAD, 16, 16), samples=1)
    assert frame.labels == {1: "screen", 2: "hidden"}
    assert set(frame.boxes()) == {1}


def test_a_white_wall_under_a_uniform_dome_has_the_radiance_of_theory():
    # A convex matt body in a dome of radiance L shines with reflectance * L everywhere.
    ball = placed(trimesh.creation.icosphere(3, 0.5), 1, "ball", (0, 2, 0))
    view = View(EYE, AHEAD, 24, 24, fov_degrees=20)
    frame = render([ball], [Dome((0.5, 1.0, 2.0))], view, samples=64)
    reflectance = ((0.8 + 0.055) / 1.055) ** 2.4
    seen = frame.rgb[8:16, 8:16].mean(axis=(0, 1))
    np.testing.assert_allclose(seen, reflectance * np.array([0.5, 1, 2]), rtol=0.03)


def small_scene():
    ball = placed(trimesh.creation.icosphere(2, 0.3), 1, "ball", (0, 2, 0))
    floor = placed(trimesh.creation.box((6, 6, 0.1)), 0, None, (0, 2, -0.4))
    lights = [Dome((0.2, 0.2, 0.2)), Bulb((1, 1, 2), 0.1, (60, 50, 40))]
    return Scene([floor, ball], lights)


def test_the_same_seed_gives_the_same_pixels_and_another_seed_others():
    scene, view = small_scene(), View(EYE, AHEAD, 48, 40)
    first = scene.render(view, samples=2, seed=7).rgb
    np.testing.assert_array_equal(first, small_scene().render(view, samples=2, seed=7).rgb)
    assert (first != scene.render(view, samples=2, seed=8).rgb).any()


def test_pixels_do_not_depend_on_the_number_of_threads():
    scene, view = small_scene(), View(EYE, AHEAD, 48, 40)
    use_threads(1)
    alone = scene.render(view, samples=2, seed=3).rgb
    use_threads(4)
    try:
        np.testing.assert_array_equal(alone, scene.render(view, samples=2, seed=3).rgb)
    finally:
        use_threads(2)


def test_another_process_renders_the_same_pixels():
    code = (
        "import hashlib; from newfound_sim.generate import crop;"
        "f = crop('directed_kinect_brown', 'mug', 0, size=32, samples=2, seed=1);"
        "print(hashlib.sha256(f.rgb.tobytes() + f.depth.tobytes()).hexdigest())"
    )
    command = [sys.executable, "-c", code]
    there = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    frame = crop("directed_kinect_brown", "mug", 0, size=32, samples=2, seed=1)
    here = hashlib.sha256(frame.rgb.tobytes() + frame.depth.tobytes()).hexdigest()
    assert there.strip() == here


@pytest.mark.parametrize("target", [(0, 0, -1), (0, 0, 0)])
def test_a_view_without_an_upright_picture_is_refused(target):
    with pytest.raises(ScenarioError, match="choose another up"):
        View((0, 0, 0), target)


def test_a_scene_without_parts_is_refused():
    with pytest.raises(SimulationError, match="at least one part"):
        Scene([], [])
