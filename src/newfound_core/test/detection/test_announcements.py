# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.announcements import Track, is_cut, region_problem
from newfound_core.detection.same_object import View

VIEW = View(0, "camera", 640, 480)


def test_stability_is_presence_times_shape_times_direction(make_detection):
    track, embeddings = Track(0, 1), []
    boxes = [(100, 100, 200, 200), (140, 100, 240, 200), (180, 100, 260, 200)]
    for frame, box in zip((1, 2, 4), boxes, strict=True):
        detection = make_detection(box=box, noise=0.1, seed=frame)
        embeddings.append(detection.embedding)
        track.add(detection, VIEW, frame, patience=5)
    shapes = [1.0, 0.8]  # the second box is 80 wide instead of 100; that it moved does not count
    expected = 2 / 3 * np.mean(shapes) * np.linalg.norm(np.mean(embeddings, axis=0))
    assert track.stability == pytest.approx(expected, rel=1e-5)


def test_a_camera_that_looks_away_for_long_costs_no_more_than_for_a_moment(make_detection):
    short, long, flickering = Track(0, 1), Track(0, 1), Track(0, 1)
    for number in range(10):
        detection = make_detection(box=(100, 100, 200, 200))
        short.add(detection, VIEW, number + (number > 4), patience=5)
        long.add(detection, VIEW, number + 500 * (number > 4), patience=5)
        flickering.add(detection, VIEW, 2 * number, patience=5)
    assert short.stability == long.stability > 0.85
    assert flickering.stability < 0.2


@pytest.mark.parametrize(
    ("box", "cut"),
    [
        ((100, 100, 200, 200), False),
        ((0, 100, 200, 200), True),
        ((100, 100, 200, 480), True),
        ((0, 0, 640, 479), False),  # the whole image
        ((0, 0, 640, 300), True),
    ],
)
def test_a_box_at_the_border_is_cut_unless_it_is_the_image(box, cut):
    assert is_cut(np.array(box, np.float32), VIEW) is cut


@pytest.mark.parametrize("region", [(0, 0, 1), (0.6, 0, 0.5, 1), (0, 0, 1.2, 1), (0, 0, 1, 0)])
def test_a_region_of_interest_must_be_a_part_of_the_image(region):
    assert region_problem(region)
    assert region_problem((0.1, 0.2, 0.9, 1.0)) is None
