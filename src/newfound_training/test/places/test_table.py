# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_training.places.table import accuracy_of, markdown, rows_of, summary

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
    cell = {"accuracy": 0.7, "as_printed": {"accuracy": 0.6}}
    assert accuracy_of("wbn", cell) == 0.7
    assert accuracy_of("wbn-printed", cell) == 0.6


def test_the_table_for_people():
    text = markdown(summary(ACCURACIES) | {"methods": {"bn": "BN", "wbn": "WBN*"}})
    assert text.splitlines() == [
        "| method | loft | villa | mean | above BN (95 %) |",
        "|---|---|---|---|---|",
        "| BN | 65.0 | 50.0 | 57.5 |  |",
        "| WBN* | 70.0 | 55.0 | 62.5 | +5.0 (-4.2 to +14.2) |",
    ]
