# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newfound_core.detection.boxes import areas, clipped, distinct, iou, square_around

corner = st.integers(0, 20)
box = st.tuples(corner, corner, corner, corner)


@given(box, box)
def test_iou_counts_the_pixels_of_both_boxes(one, other):
    def pixels(b):
        return {(x, y) for x in range(b[0], b[2]) for y in range(b[1], b[3])}

    shared, union = pixels(one) & pixels(other), pixels(one) | pixels(other)
    found = iou(np.array([one], float), np.array([other], float))
    assert found[0, 0] == pytest.approx(len(shared) / len(union) if union else 0)
    assert areas(np.array([one], float))[0] == len(pixels(one))


def test_of_boxes_that_overlap_the_best_is_kept():
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10], [0, 0, 9, 10]], float)
    scores = np.array([0.5, 0.9, 0.7, 0.6])
    assert distinct(boxes, scores, 0.5, count=10).tolist() == [1, 2]
    assert distinct(boxes, scores, 0.5, count=1).tolist() == [1]
    assert distinct(boxes[:0], scores[:0], 0.5, count=3).tolist() == []


def test_boxes_end_at_the_border_of_the_image():
    boxes = np.array([[-5.0, -5, 700, 20]])
    assert clipped(boxes, 640, 480).tolist() == [[0, 0, 640, 20]]


@given(
    st.integers(0, 600), st.integers(0, 440), st.integers(1, 40), st.integers(1, 40),
    st.floats(0, 1),
)  # fmt: skip
def test_a_square_holds_its_box_and_lies_inside_the_image(left, top, width, height, margin):
    square = square_around(
        np.array([left, top, left + width, top + height], float), margin, 640, 480
    )
    assert (square >= 0).all()
    assert (square <= [640, 480, 640, 480]).all()
    assert square[0] <= left
    assert square[1] <= top
    assert square[2] >= left + width
    assert square[3] >= top + height
    sides = square[2:] - square[:2]
    assert abs(int(sides[0]) - int(sides[1])) <= 1


def test_a_square_larger_than_the_image_is_cut_off():
    assert square_around(np.array([0.0, 0, 640, 480]), 0.15, 640, 480).tolist() == [0, 0, 640, 480]
