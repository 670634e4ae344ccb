# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_training.detector.measures import (
    Proposed,
    Scene,
    average_precision,
    best_threshold,
    class_outcomes,
    f_score,
    fit_calibration,
    match_boxes,
    measure,
    measure_proposals,
    objectness_and_overlap,
    recall_at,
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


def proposed(truth, found):
    """Found as (box, objectness), best first."""
    boxes = np.array([box for box, _ in found], np.float32).reshape(-1, 4)
    return Proposed(np.array(truth, np.float32), boxes, np.array([s for _, s in found]))


SHIFTED = (0, 0, 10, 8.2)  # IoU 0.82 with A


def test_average_recall_counts_the_thresholds_that_the_best_boxes_reach():
    pictures = [proposed([A, B], [(SHIFTED, 0.9), (FAR, 0.5)])]
    found = measure_proposals(pictures)
    # IoU 0.82 passes 0.5, 0.55, … 0.8: seven of ten thresholds, for one of two objects.
    assert found["ar_10"] == found["ar_20"] == pytest.approx(0.35)
    assert found["recall_10"] == 0.5
    assert recall_at(pictures, 10, 0.85) == 0
    late = [proposed([A], [(FAR, 1.0)] * 10 + [(A, 0.1)])]
    assert (recall_at(late, 10), recall_at(late, 11)) == (0, 1)


def test_one_box_covers_one_object():
    twins = [proposed([A, (1, 0, 11, 10)], [(A, 0.9)])]
    assert recall_at(twins, 10) == 0.5
    assert recall_at([], 10) == 0


def test_a_ranking_is_measured_by_the_correlation_of_objectness_and_overlap():
    good = [proposed([A], [(A, 0.9), (SHIFTED, 0.8), (FAR, 0.1)])]
    bad = [proposed([A], [(FAR, 0.9), (SHIFTED, 0.8), (A, 0.1)])]
    assert measure_proposals(good)["correlation"] == pytest.approx(1)
    assert measure_proposals(bad)["correlation"] == pytest.approx(-1)
    assert measure_proposals([proposed([A], [])])["correlation"] == 0
    expected = [[0.9, 1.0], [0.8, 0.82], [0.1, 0.0]]
    np.testing.assert_allclose(objectness_and_overlap(good), expected, atol=1e-6)


def test_calibration_finds_the_logistic_curve_behind_pairs():
    sure = np.random.default_rng(0).uniform(0.1, 0.9, 2000)
    logit = np.log(sure / (1 - sure))
    pairs = np.stack([sure, 1 / (1 + np.exp(-(1.8 * logit - 0.4)))], 1)
    assert fit_calibration(pairs) == pytest.approx((1.8, -0.4), abs=0.02)
    assert fit_calibration(pairs[:0]) == (1, 0)
    same = np.stack([sure, sure], 1)
    assert fit_calibration(same) == pytest.approx((1, 0), abs=0.01)


def test_the_f_score_weighs_recall_by_beta():
    pictures = [proposed([A, B], [(A, 0.9), (FAR, 0.5), (C, 0.4)])]
    precision, recall = 1 / 3, 1 / 2
    f1 = 2 * precision * recall / (precision + recall)
    f2 = 5 * precision * recall / (4 * precision + recall)
    assert f_score(pictures, 0.0, 10, beta=1) == pytest.approx(f1)
    assert f_score(pictures, 0.0, 10) == pytest.approx(f2)
    assert f_score(pictures, 0.8, 10) == pytest.approx(5 / 9)
    assert f_score([], 0.5, 10) == 0


def test_the_threshold_keeps_what_is_right_and_little_else():
    pictures = [proposed([A, B], [(A, 0.9), (B, 0.62), (FAR, 0.5), (C, 0.4)])]
    assert 0.5 < best_threshold([pictures]) < 0.62
    late = [proposed([A], [(FAR, 0.5), (A, 0.3)])]
    assert best_threshold([late, late, pictures]) < 0.3
    assert best_threshold([[]]) == 0


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
