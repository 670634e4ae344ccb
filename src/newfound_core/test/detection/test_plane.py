# SPDX-License-Identifier: Apache-2.0
import numpy as np

from newfound_core.detection.plane import dominant_plane, inverse_depth


def test_the_plane_is_found_under_the_things_on_it(table):
    depth, _ = table()
    bare, _ = table(boxes=(), heights=())
    plane = dominant_plane(inverse_depth(depth), tolerance=0.005, least_share=0.2)
    seen = bare > 0
    np.testing.assert_allclose(1 / plane[seen], bare[seen], rtol=0.005)


def test_it_is_found_in_a_noisy_image(table):
    depth, _ = table(noise=0.002)
    bare, _ = table(boxes=(), heights=())
    plane = dominant_plane(inverse_depth(depth), tolerance=0.006, least_share=0.2)
    np.testing.assert_allclose(1 / plane[bare > 0], bare[bare > 0], rtol=0.01)


def test_the_same_image_gives_the_same_plane(table):
    inverse = inverse_depth(table(noise=0.002)[0])
    np.testing.assert_array_equal(
        dominant_plane(inverse, 0.005, 0.2), dominant_plane(inverse, 0.005, 0.2)
    )


def test_without_measurements_or_in_a_cloud_of_points_there_is_none():
    assert dominant_plane(np.zeros((48, 64), np.float32), 0.005, 0.2) is None
    cloud = np.random.default_rng(0).uniform(0.2, 5, (48, 64)).astype(np.float32)
    assert dominant_plane(cloud, 0.005, 0.2) is None
    line = np.zeros((48, 64), np.float32)
    line[10] = 1
    assert dominant_plane(line, 0.005, 0.2) is None


def test_what_was_not_measured_is_zero():
    depth = np.array([[0, -1, np.nan, np.inf, 2]], np.float32)
    assert inverse_depth(depth).tolist() == [[0, 0, 0, 0, 0.5]]
