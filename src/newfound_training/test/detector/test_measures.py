# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_training.detector.measures import (
    Scene,
    average_precision,
    class_outcomes,
    covered,
    match_boxes,
    measure,
    wilderness_impact,
)

A, B, C, FAR = (0, 0, 10, 10), (20, 0, 30, 10), (40, 0, 50, 10), (80, 80, 90, 90)


def scene(truth, found):
    """Truth as (box, label), found as (box, label, score)."""
    return Scene(
        np.array([box for box, _ in truth], np.float32).reshape(-1, 4),
        tuple(label for _, label in truth),
        np.array([box for box, _, _ in found], np.float32).reshape(-1, 4),
        tuple(label for _, label, _ in found),
        tuple(score for _, _, score in found),
    )


def test_each_object_has_the_detection_that_covers_it_best():
    shifted = (2, 0, 12, 10)  # IoU 2/3 with A
    found = scene([(A, "mug"), (B, "can")], [(shifted, "can", 0.9), (A, "mug", 0.1)])
    assert found.matches().tolist() == [1, -1]
    half = (0, 0, 10, 4)  # IoU 0.4
    assert scene([(A, "mug")], [(half, "mug", 1.0)]).matches().tolist() == [-1]
    assert scene([], [(A, "mug", 1.0)]).matches().tolist() == []


def test_the_best_overlap_is_matched_first_or_the_most_certain_box():
    shifted = (2, 0, 12, 10)  # IoU 2/3 with A
    boxes, truth = np.array([shifted, A], np.float32), np.array([A], np.float32)
    assert match_boxes(boxes, truth).tolist() == [-1, 0]
    assert match_boxes(boxes, truth, [0.9, 0.1]).tolist() == [0, -1]
    assert match_boxes(boxes[:0], truth, []).tolist() == []
    assert match_boxes(boxes, truth[:0], [0.9, 0.1]).tolist() == [-1, -1]


def test_one_box_may_cover_two_objects():
    truth = np.array([A, (2, 0, 12, 10), FAR], np.float32)
    assert covered(truth, np.array([(1, 0, 11, 10)], np.float32)).tolist() == [True, True, False]
    assert covered(truth, np.zeros((0, 4), np.float32)).tolist() == [False] * 3


def test_outcomes_are_counted_by_true_class():
    found = scene(
        [(A, "mug"), (B, "mug"), (C, "teapot"), (FAR, "teapot")],
        [(A, "mug", 0.9), (B, "", 0.2), (C, "mug", 0.3)],
    )
    assert class_outcomes([found]) == {
        "mug": {"right": 1, "unknown": 1, "wrong": 0, "missed": 0},
        "teapot": {"right": 0, "unknown": 0, "wrong": 1, "missed": 1},
    }


def test_average_precision_of_a_worked_example():
    """Right, wrong, right by falling score, of three objects: (1/3)(1) + (1/3)(2/3)."""
    one = scene([(A, "mug"), (B, "mug")], [(A, "mug", 0.9), (C, "mug", 0.8), (B, "mug", 0.7)])
    other = scene([(A, "mug")], [])
    assert average_precision([one, other], "mug") == pytest.approx(5 / 9)


def test_a_second_detection_of_one_object_is_wrong():
    doubled = scene([(A, "mug"), (B, "mug")], [(A, "mug", 0.9), (A, "mug", 0.8), (B, "mug", 0.7)])
    assert average_precision([doubled], "mug") == pytest.approx((1 + 2 / 3) / 2)


def test_wilderness_impact_is_names_on_unknown_things_over_all_others():
    found = scene(
        [(A, "mug"), (B, "teapot"), (C, "teapot")],
        [(A, "mug", 1.0), (B, "mug", 1.0), (C, "", 1.0), (FAR, "mug", 1.0)],
    )
    assert wilderness_impact([found], ["mug"]) == pytest.approx(1 / 2)
    assert wilderness_impact([scene([(A, "mug")], [])], ["mug"]) is None


def test_the_numbers_of_a_set_of_pictures():
    found = scene(
        [(A, "mug"), (B, "teapot"), (C, "teapot"), (FAR, "mug")],
        [(A, "mug", 1.0), (B, "", 1.0), (C, "mug", 0.5)],
    )
    result = measure([found], ["mug", "never seen here"])
    assert result["objects"] == {"known": 2, "unknown": 2}
    assert (result["recall"], result["known_recall"]) == (0.75, 0.5)
    assert result["unknown_class_recall"] == 1.0
    assert (result["unknown_recall"], result["unknown_called_known"]) == (0.5, 0.5)
    assert (result["known_named_right"], result["known_called_unknown"]) == (0.5, 0.0)
    assert list(result["average_precision"]) == ["mug"]
    assert result["known_map"] == pytest.approx(0.5)


def test_without_unknown_things_nothing_is_said_of_them():
    result = measure([scene([(A, "mug")], [(A, "mug", 1.0)])], ["mug"])
    assert result["unknown_recall"] is None
    assert result["known_map"] == 1.0
