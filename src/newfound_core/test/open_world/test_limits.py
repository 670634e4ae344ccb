# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch
from newfound_core.open_world.limits import (
    exact_limits,
    leave_one_class_out_limit,
    limit_loss,
    percentile_limit,
    percentile_limits,
)


def loss_by_loops(distances, labels, limits, own_sign):
    total = 0.0
    for row, label in zip(distances, labels, strict=True):
        for k, distance in enumerate(row):
            sign = own_sign if k == label else -own_sign
            total += max(0.0, sign * (distance - limits[k]))
    return total


def descend(distances, labels, own_sign, start, steps=4000, rate=0.01):
    """Minimise the loss by subgradient descent on every limit, as the thesis does."""
    limits = np.full(distances.shape[1], float(start))
    own = labels[:, None] == np.arange(distances.shape[1])
    sign = np.where(own, own_sign, -own_sign)
    for _ in range(steps):
        limits -= rate * (-sign * (sign * (distances - limits) > 0)).mean(0)
    return limits


def test_the_loss_equals_the_printed_sum_with_the_corrected_sign(points):
    distances = torch.cdist(points.features, points.means)
    limits = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    expected = loss_by_loops(distances.numpy(), points.labels.numpy(), limits.numpy(), +1)
    assert limit_loss(distances, points.labels, limits).item() == pytest.approx(expected)


def test_gradients_of_the_loss_are_right(points):
    distances = torch.cdist(points.features, points.means)
    limits = torch.tensor([1.1, 2.2, 3.3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: limit_loss(distances, points.labels, t), limits)


@pytest.mark.parametrize("seed", range(20))
def test_exact_limits_are_as_good_as_a_brute_force_over_all_kinks(seed):
    generator = np.random.default_rng(seed)
    samples, classes = generator.integers(1, 30), generator.integers(1, 5)
    distances = np.round(generator.uniform(0, 3, (samples, classes)), 1)  # with ties
    labels = generator.integers(0, classes, samples)
    found = exact_limits(torch.tensor(distances), torch.tensor(labels)).numpy()
    for k in range(classes):
        if not (labels == k).any():
            continue  # any small limit is best; ours is the median of the others

        def loss(limit, k=k):
            return loss_by_loops(distances[:, [k]], np.where(labels == k, 0, 1), [limit], +1)

        best = min(loss(limit) for limit in distances[:, k])  # a minimum lies at a kink
        assert loss(found[k]) == pytest.approx(best)


def test_separable_classes_get_the_middle_of_the_gap():
    distances = torch.tensor([[1.0, 9.0], [2.0, 9.0], [6.0, 1.0], [7.0, 1.0]])
    limits = exact_limits(distances, torch.tensor([0, 0, 1, 1]))
    assert limits.tolist() == [4.0, 5.0]


def test_the_printed_sign_fails_on_a_toy_where_the_corrected_one_works():
    """Four tight classes far apart: own distances near 1, distances to the others near 10."""
    labels = np.repeat(range(4), 50)
    own = labels[:, None] == np.arange(4)
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, own.shape)
    distances = np.where(own, 1.0, 10.0) + noise

    def accepted(limits):
        inside = distances <= limits
        return inside[own].mean(), inside[~own].mean()

    for works in (
        descend(distances, labels, +1, start=0.0),
        exact_limits(torch.tensor(distances), torch.tensor(labels)).numpy(),
    ):
        own_accepted, others_accepted = accepted(works)
        assert own_accepted > 0.95
        assert others_accepted == 0
    # The printed sign is paid for others that stay outside: it grows until most are inside.
    _, others_accepted = accepted(descend(distances, labels, -1, start=0.0))
    assert others_accepted > 0.6


def test_a_class_without_samples_gets_the_median_of_the_others():
    distances = torch.tensor([[1.0, 5.0, 9.0], [5.0, 3.0, 9.0]])
    limits = exact_limits(distances, torch.tensor([0, 1]))
    assert limits[2] in limits[:2]


def test_no_samples_at_all_reject_nothing():
    limits = exact_limits(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    assert limits.tolist() == [torch.inf, torch.inf]


def test_nan_rows_do_not_reach_the_limits():
    distances = torch.tensor([[1.0, 5.0], [5.0, 1.0], [torch.nan, torch.nan]])
    assert exact_limits(distances, torch.tensor([0, 1, 0])).tolist() == [3.0, 3.0]


def test_percentile_limits_are_those_of_the_own_samples():
    distances = torch.tensor([[1.0, 9.0], [2.0, 9.0], [3.0, 9.0], [9.0, 4.0]])
    labels = torch.tensor([0, 0, 0, 1])
    assert percentile_limits(distances, labels, 50).tolist() == [2.0, 4.0]
    assert percentile_limit(distances, labels, 50) == pytest.approx(2.5)


def test_leaving_one_class_out_finds_the_limit_between_known_and_unknown():
    # As knowns the samples lie at 1; with their class left out, at 4.
    distances = torch.tensor([[1.0, 4.0, 6.0], [4.0, 1.0, 6.0], [5.0, 4.0, 1.0]])
    limit = leave_one_class_out_limit(distances, torch.tensor([0, 1, 2]))
    assert 1.0 <= limit < 4.0


def test_leaving_one_class_out_of_one_falls_back_to_the_median():
    distances = torch.tensor([[1.0], [2.0], [9.0]])
    assert leave_one_class_out_limit(distances, torch.tensor([0, 0, 0])) == 2.0
