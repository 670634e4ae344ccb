# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

from newfound_core.open_world.head import choose

# Distances to classes 0, 1, 2 with thresholds 1, 3, 1.
LIMITS = torch.tensor([1.0, 3.0, 1.0])
INSIDE = [0.5, 4.0, 4.0]  # within the threshold of its nearest class
OTHER = [2.0, 2.5, 4.0]  # beyond the threshold of the nearest, within that of another
OUTSIDE = [2.0, 4.0, 4.0]  # beyond all thresholds
DISTANCES = torch.tensor([INSIDE, OTHER, OUTSIDE])


@pytest.mark.parametrize(
    ("reject_when", "choose_from", "known", "columns"),
    [
        ("all_beyond", "all", [True, True, False], [0, 0, 0]),
        ("all_beyond", "accepted", [True, True, False], [0, 1, 0]),
        ("nearest_beyond", "all", [True, False, False], [0, 0, 0]),
        ("nearest_beyond", "accepted", [True, False, False], [0, 0, 0]),
    ],
)
def test_every_rule_on_a_hand_worked_example(reject_when, choose_from, known, columns):
    column, nearest, is_known = choose(DISTANCES, LIMITS, reject_when, choose_from)
    assert is_known.tolist() == known
    assert column.tolist() == columns
    assert nearest.tolist() == [0, 0, 0]


@pytest.mark.parametrize("reject_when", ["all_beyond", "nearest_beyond"])
@pytest.mark.parametrize("choose_from", ["all", "accepted"])
def test_nan_and_infinite_distances_are_unknown_even_without_thresholds(reject_when, choose_from):
    distances = torch.tensor([[torch.nan, torch.nan], [torch.inf, torch.inf]])
    _, _, known = choose(distances, torch.full((2,), torch.inf), reject_when, choose_from)
    assert not known.any()


def test_a_sample_on_the_threshold_is_known():
    _, _, known = choose(torch.tensor([[1.0]]), torch.tensor([1.0]), "all_beyond", "all")
    assert known.all()
