# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest
from PIL import Image
from scipy import stats

from newfound_training.places.tables import (
    accuracies,
    accuracy_of,
    draw_differences,
    draw_weights,
    markdown,
    method_of,
    paired_difference,
    rows_of,
    summary,
    t_quantile,
    weight_histograms,
)


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


ACCURACIES = {
    "bn": {"loft": [0.6, 0.7], "villa": [0.5, 0.5]},
    "wbn": {"loft": [0.7, 0.7], "villa": [0.6, 0.5]},
}


def test_differences_are_paired_by_target_and_seed():
    found = summary(ACCURACIES)
    assert found["average"]["wbn"]["accuracy"] == pytest.approx(0.625)
    assert found["average"]["wbn"]["above_bn"]["mean"] == pytest.approx(0.05)
    assert found["average"]["wbn"]["above_bn"]["pairs"] == 4
    # By hand: standard deviation 0.0577, t(3) = 3.182, half width 3.182 * 0.0577 / 2.
    assert found["average"]["wbn"]["above_bn"]["interval"] == pytest.approx(
        [-0.0419, 0.1419], abs=1e-4
    )
    assert found["targets"]["loft"]["wbn"]["above_bn"]["mean"] == pytest.approx(0.05)


def test_wbn_with_labels_has_two_rows():
    assert list(rows_of(["bn", "wbn"])) == ["bn", "wbn-printed", "wbn"]
    found = {"accuracy": 0.7, "as_printed": {"accuracy": 0.6}}
    assert accuracy_of("wbn", found) == 0.7
    assert accuracy_of("wbn-printed", found) == 0.6


def test_rows_that_onda_follows_are_of_the_same_runs():
    assert list(rows_of(["bn", "bsf"], onda=True)) == ["bn", "bsf", "bn+onda"]
    assert method_of("wbn+onda") == method_of("wbn-printed") == "wbn"
    assert accuracy_of("bn+onda", {"accuracy": 0.6, "onda": {"accuracy": 0.7}}) == 0.7


def test_the_table_for_people():
    text = markdown(summary(ACCURACIES) | {"methods": {"bn": "BN", "wbn": "WBN*"}})
    assert text.splitlines() == [
        "| method | loft | villa | mean | above BN (95 %) |",
        "|---|---|---|---|---|",
        "| BN | 65.0 | 50.0 | 57.5 |  |",
        "| WBN* | 70.0 | 55.0 | 62.5 | +5.0 (-4.2 to +14.2) |",
    ]


def test_figures_are_drawn(tmp_path):
    draw_weights({"loft_day": [[1, 2], [2, 1]]}, ["villa", "cottage"], tmp_path / "weights.png")
    result = summary({"bn": {"loft": [0.6, 0.7]}, "wbn": {"loft": [0.7, 0.7]}})
    draw_differences(result | {"methods": {"bn": "BN", "wbn": "WBN*"}}, tmp_path / "d.png")
    for name in ("weights.png", "d.png"):
        with Image.open(tmp_path / name) as image:
            assert min(image.size) > 100
            assert len(image.convert("RGB").getcolors(100_000)) > 2
