# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from scipy import stats

from newfound_training.places.measures import (
    accuracies,
    confusion,
    paired_difference,
    t_quantile,
    weight_histograms,
)


def test_confusion_counts_true_and_predicted():
    counts = confusion(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1]), 3)
    assert counts.tolist() == [[1, 1, 0], [0, 1, 0], [0, 1, 0]]


def test_accuracy_over_images_and_over_places():
    found = accuracies(np.array([[8, 2, 0], [1, 1, 0], [0, 0, 0]]))
    assert found == {"accuracy": pytest.approx(9 / 12), "place_accuracy": pytest.approx(0.65)}


def test_weights_are_counted_by_folder_and_domain():
    weights = np.array([[1.0, 0.0], [0.95, 0.05], [0.45, 0.55]])
    found = weight_histograms(weights, np.array(["a", "a", "b"]))
    assert found["a"] == [[0] * 9 + [2], [2] + [0] * 9]
    assert found["b"][0][4] == found["b"][1][5] == 1


@pytest.mark.parametrize("freedom", [1, 2, 4, 14, 100])
def test_the_quantile_is_that_of_students_t(freedom):
    assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-4)


def test_the_interval_is_that_of_the_paired_t_test():
    differences = [0.02, -0.01, 0.03, 0.015, 0.0]
    found = paired_difference(differences)
    expected = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert found["mean"] == pytest.approx(0.011)
    assert found["interval"] == pytest.approx([expected.low, expected.high], rel=1e-4)
    assert found["pairs"] == 5


def test_one_pair_has_no_interval():
    assert paired_difference([0.1]) == {"mean": pytest.approx(0.1), "interval": None, "pairs": 1}
