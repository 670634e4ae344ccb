# SPDX-License-Identifier: Apache-2.0
"""Against scenes whose truth is exact: ray casting in double precision, written for this test."""

import numpy as np
import pytest

from newfound_core.detection.camera_rays import Calibration
from newfound_core.detection.depth_segments import DepthSegments
from newfound_core.detection.positions import ObjectLocator
from newfound_core.detection.proposals import CameraView

FOCAL, HEIGHT, WIDTH = 525.0, 480, 640
PLAIN = Calibration(FOCAL / WIDTH, FOCAL / HEIGHT, 0.5, 0.5)
# Half sides (of a cylinder: radius twice, half the height), place on the table, and turn.
BOX = ("box", (0.06, 0.035, 0.05), (-0.1, 0.02), 0.4)
CYLINDER = ("cylinder", (0.035, 0.035, 0.06), (0.09, -0.01), 0.0)


class Scene:
    """Things on a table, seen by a camera that looks at its middle."""

    def __init__(self, things=(BOX, CYLINDER), distance=1.0, pitch=40.0, calibration=PLAIN):
        c, s = np.cos(np.radians(pitch)), np.sin(np.radians(pitch))
        self.rotation = np.array([[1, 0, 0], [0, -s, c], [0, -c, -s]])  # camera to world
        self.position = np.array([0, -c, s]) * distance
        x, y = calibration.rays(HEIGHT, WIDTH).astype(np.float64)
        rays = np.stack([x, y, np.ones_like(x)], -1) @ self.rotation.T
        self.depth = -self.position[2] / rays[..., 2]  # the table: z = 0
        self.labels = np.zeros((HEIGHT, WIDTH), int)
        self.things = things
        for number, (kind, size, place, turn) in enumerate(things, 1):
            t = self._hit(kind, np.array(size), np.array([*place, size[2]]), turn, rays)
            nearer = t < self.depth
            self.depth[nearer], self.labels[nearer] = t[nearer], number
        self.boxes = np.array([self._box(n) for n in range(1, len(things) + 1)], np.float32)

    def _hit(self, kind, size, centre, turn, rays):
        c, s = np.cos(turn), np.sin(turn)
        to_thing = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
        o, d = to_thing @ (self.position - centre), rays @ to_thing.T
        with np.errstate(all="ignore"):
            near, far = np.sort([(-size - o) / d, (size - o) / d], axis=0)
            if kind == "cylinder":
                a, b = (d[..., :2] ** 2).sum(-1), d[..., :2] @ o[:2]
                root = np.sqrt(b * b - a * (o[:2] @ o[:2] - size[0] ** 2))
                near = np.stack([(-b - root) / a, near[..., 2]], -1)
                far = np.stack([(-b + root) / a, far[..., 2]], -1)
            t, out = near.max(-1), far.min(-1)
            return np.where((t < out) & (t > 0), t, np.inf)

    def _box(self, number):
        rows, columns = np.nonzero(self.labels == number)
        return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1

    def centre(self, index):
        """In the camera's frame."""
        _, size, place, _ = self.things[index]
        return self.rotation.T @ (np.array([*place, size[2]]) - self.position)

    def size(self, index):
        sides = 2 * np.array(self.things[index][1])
        return np.array([*np.sort(sides[:2])[::-1], sides[2]])


def located(scene, depth=None, calibration=PLAIN, boxes=None, segments=True):
    """Positions of boxes, by default of the true ones."""
    depth = (scene.depth if depth is None else depth).astype(np.float32)
    boxes = scene.boxes if boxes is None else boxes
    found = None
    if segments:
        view = CameraView(calibration.focal_x, calibration.focal_x)
        rgb = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        found = DepthSegments(camera=view).propose(rgb, depth).scene
    return ObjectLocator(calibration).locate(depth, boxes, (HEIGHT, WIDTH), found)


@pytest.mark.parametrize("distance", [0.6, 1.0, 1.5])
@pytest.mark.parametrize("pitch", [30.0, 55.0])
@pytest.mark.parametrize("segments", [True, False])
def test_boxes_and_cylinders_are_where_they_are_and_as_large(distance, pitch, segments):
    scene = Scene(distance=distance, pitch=pitch)
    for index, found in enumerate(located(scene, segments=segments)):
        np.testing.assert_allclose(found.centre, scene.centre(index), atol=0.008 * distance + 4e-3)
        np.testing.assert_allclose(found.size, scene.size(index), atol=0.008 * distance + 8e-3)
        assert found.on_support
        assert found.points > 30


def test_the_axes_are_those_of_the_box_and_of_the_table():
    scene = Scene(things=(BOX,), pitch=50.0)
    (found,) = located(scene)
    up = scene.rotation.T @ np.array([0, 0, 1.0])
    along = scene.rotation.T @ np.array([np.cos(BOX[3]), np.sin(BOX[3]), 0])
    np.testing.assert_allclose(found.axes[:, 2], up, atol=0.01)
    assert abs(found.axes[:, 0] @ along) > np.cos(np.radians(6))
    np.testing.assert_allclose(found.axes.T @ found.axes, np.eye(3), atol=1e-9)
    assert np.linalg.det(found.axes) == pytest.approx(1)


@pytest.mark.parametrize("distance", [0.7, 1.0, 1.5])
def test_noise_that_grows_with_the_square_of_the_distance_moves_them_little(distance):
    scene = Scene(distance=distance)
    errors, expected = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        noisy = scene.depth + 0.003 * scene.depth**2 * rng.normal(size=scene.depth.shape)
        noisy[rng.random(noisy.shape) < 0.15] = 0  # holes
        noisy[rng.random(noisy.shape) < 0.01] = np.nan
        for index, found in enumerate(located(scene, noisy)):
            errors.append(np.linalg.norm(found.centre - scene.centre(index)))
            expected.append(found.error)
    assert np.median(errors) < 0.015
    assert 0.1 < np.median(errors) / np.median(expected) < 2


def test_flying_pixels_between_an_object_and_the_table_do_not_enlarge_it():
    scene, rng = Scene(), np.random.default_rng(0)
    far = np.max([np.roll(scene.depth, shift, axis) for axis in (0, 1) for shift in (-1, 1)], 0)
    edge = far > scene.depth + 0.02
    flying = scene.depth + edge * rng.random(scene.depth.shape) * (far - scene.depth)
    for index, found in enumerate(located(scene, flying)):
        np.testing.assert_allclose(found.size, scene.size(index), atol=0.02)
        assert np.linalg.norm(found.centre - scene.centre(index)) < 0.015


def test_what_stands_behind_in_the_same_box_is_cut_away():
    behind = ("box", (0.08, 0.03, 0.1), (-0.02, 0.25), 0.0)
    scene = Scene(things=(CYLINDER, behind), pitch=30.0)
    left, top, right, bottom = scene.boxes[0]
    wide = np.array([[left - 25, top - 25, right + 10, bottom + 5]], np.float32)
    (found,) = located(scene, boxes=wide, segments=False)
    np.testing.assert_allclose(found.centre, scene.centre(0), atol=0.015)


@pytest.mark.parametrize("model", ["plumb_bob", "rational_polynomial"])
def test_the_distortion_of_the_lens_is_respected(model):
    coefficients = (-0.25, 0.07, 0.001, -0.0005) + ((0.0,) * 4 if model != "plumb_bob" else ())
    lens = Calibration(FOCAL / WIDTH, FOCAL / HEIGHT, 0.5, 0.5, model, coefficients)
    aside = ("box", (0.05, 0.04, 0.04), (-0.36, 0.1), 0.0)
    scene = Scene(things=(aside,), calibration=lens, pitch=45.0)
    (right,) = located(scene, calibration=lens)
    (wrong,) = located(scene)
    error = np.linalg.norm(right.centre - scene.centre(0))
    assert error < 0.007
    assert np.linalg.norm(wrong.centre - scene.centre(0)) > 2 * error


def test_without_a_support_the_box_is_what_is_visible():
    depth = np.zeros((HEIGHT, WIDTH))
    depth[190:290, 290:390] = 0.8
    scene = Scene(things=(BOX,))
    box = np.array([[290, 190, 390, 290]], np.float32)
    (found,) = located(scene, depth, boxes=box, segments=False)
    assert not found.on_support
    np.testing.assert_allclose(found.centre, [0.8 * 20 / FOCAL, 0, 0.8], atol=5e-3)
    np.testing.assert_allclose(found.size, [0.152, 0.0, 0.152], atol=5e-3)


def test_where_nothing_was_measured_there_is_no_position():
    scene = Scene()
    depth = np.where(scene.labels == 1, 0, scene.depth)
    found = located(scene, depth, segments=False)
    assert found[0] is None
    assert found[1] is not None
    assert located(scene, 0 * depth, segments=False) == [None, None]
    assert located(scene, boxes=np.zeros((0, 4), np.float32)) == []


def test_depth_may_have_another_size_than_the_image():
    scene = Scene()
    whole, half = located(scene), None
    small = scene.depth[::2, ::2].astype(np.float32)
    half = ObjectLocator(PLAIN).locate(small, scene.boxes, (HEIGHT, WIDTH))
    for one, other in zip(whole, half, strict=True):
        np.testing.assert_allclose(one.centre, other.centre, atol=0.012)


def test_what_the_image_cuts_off_has_an_error_of_half_its_visible_length():
    scene = Scene()
    locator = ObjectLocator(PLAIN)
    left, top, right, bottom = scene.boxes[0].astype(int)
    middle = (left + right) // 2
    part = np.array([[middle, top, right, bottom]], np.float32)
    [whole] = locator.locate(scene.depth.astype(np.float32), part, scene.depth.shape)
    depth = scene.depth[:, middle:].astype(np.float32)
    shifted = Calibration(
        FOCAL / depth.shape[1], FOCAL / HEIGHT, (320 - middle) / depth.shape[1], 0.5
    )
    cut = part - np.array([middle, 0, middle, 0], np.float32)
    [found] = ObjectLocator(shifted).locate(depth, cut, depth.shape)
    assert found.error == pytest.approx(np.hypot(whole.error, found.size.max() / 2), rel=0.05)
