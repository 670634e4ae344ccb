# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.depth_geometry import measure_surfaces
from newfound_core.detection.proposals import CameraView
from newfound_core.detection.segment_joining import (
    FEATURES,
    Regions,
    _join_touching,
    describe_parts,
    evidence,
    hull_area,
    join,
)

GREY = np.full((240, 320, 3), 128, np.uint8)


@pytest.fixture
def steps():
    """Two parts beside each other on a plane at 1 m: 8 and 4 cm high, 60 x 40 pixels each."""
    height = np.zeros((240, 320), np.float32)
    labels = np.zeros((240, 320), np.int32)
    for number, (left, high) in enumerate(((100, 0.08), (160, 0.04)), 1):
        height[80:120, left : left + 60] = high
        labels[80:120, left : left + 60] = number
    depth = np.repeat(np.repeat(1 - height, 2, 0), 2, 1)
    parts = describe_parts(labels, measure_surfaces(depth, CameraView()), height, GREY)
    return parts, dict(zip(FEATURES, parts.features[0], strict=True))


def test_the_features_of_a_border_are_what_they_say(steps):
    parts, pair = steps
    assert parts.pairs.tolist() == [[1, 2]]
    assert parts.area[1:].tolist() == [2400, 2400]
    pixel = 1 / (0.82 * 320)
    assert pair["gap"] == pytest.approx(np.log(0.04 + 0.003), abs=0.05)
    assert pair["contact"] == pytest.approx(40 / np.sqrt(2400), rel=0.01)
    assert pair["small_area"] == pytest.approx(np.log(2400 * (0.96 * pixel) ** 2), abs=0.05)
    assert pair["saddle"] == pytest.approx(1, abs=0.05)
    assert pair["tops"] == pytest.approx(np.log(2), abs=0.05)
    assert pair["colour"] == 0
    assert pair["solidity"] == pytest.approx(1, abs=0.02)


def test_parts_that_do_not_touch_are_no_pair():
    labels = np.zeros((240, 320), np.int32)
    labels[10:50, 10:50], labels[100:150, 100:150] = 1, 2
    surfaces = measure_surfaces(np.full((480, 640), 1, np.float32), CameraView())
    parts = describe_parts(labels, surfaces, np.full((240, 320), 0.05, np.float32), GREY)
    assert parts.pairs.shape == (0, 2)
    assert evidence(parts.features).shape == (0,)
    np.testing.assert_array_equal(join(parts), labels)


def test_a_sliver_between_two_things_does_not_join_them(steps):
    labels = np.zeros((240, 320), np.int32)
    labels[80:120, 60:120], labels[80:120, 120:122], labels[80:120, 122:180] = 1, 2, 3
    surfaces = measure_surfaces(np.full((480, 640), 1, np.float32), CameraView())
    parts = describe_parts(labels, surfaces, np.full((240, 320), 0.05, np.float32), GREY)
    assert parts.pairs.tolist() == [[1, 2], [2, 3]]
    group = _join_touching(parts, np.array([3.0, 2.0]))
    assert group[1] == group[2] != group[3]


def test_the_area_of_a_hull_counts_whole_pixels():
    rows, columns = np.nonzero(np.ones((10, 20)))
    assert hull_area(np.stack([columns, rows], 1).astype(np.int32)) == pytest.approx(200)


def test_regions_have_the_means_and_hulls_of_their_pixels():
    labels = np.random.default_rng(0).integers(0, 5, (12, 15)).astype(np.int32)
    labels[labels == 3] = 0  # a number that no region has
    labels[6] = 7  # from side to side
    values = np.random.default_rng(1).random((2, 12, 15))
    regions = Regions(labels)
    means = regions.means(values.reshape(2, -1).take(regions.pixels, 1))
    assert regions.numbers.tolist() == [1, 2, 4, 7]
    for number, area, mean, hull in zip(
        regions.numbers, regions.area, means, regions.hulls(), strict=True
    ):
        rows, columns = np.nonzero(labels == number)
        assert area == len(rows)
        np.testing.assert_allclose(mean, values[:, rows, columns].mean(1))
        assert hull_area(hull) == hull_area(np.stack([columns, rows], 1).astype(np.int32))


def test_a_label_image_without_a_region_has_none():
    regions = Regions(np.zeros((12, 15), np.int32))
    assert len(regions.numbers) == len(regions.hulls()) == 0
    assert regions.means(np.zeros((2, 0))).shape == (0, 2)
