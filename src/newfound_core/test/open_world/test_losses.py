# SPDX-License-Identifier: Apache-2.0

import math

import numpy as np
import pytest
import torch

from newfound_core.open_world.losses import (
    distillation_loss,
    exact_thresholds,
    global_clustering_loss,
    leave_one_class_out_threshold,
    local_clustering_loss,
    one_against_rest_loss,
    percentile_threshold,
    percentile_thresholds,
    threshold_loss,
)


def loss_by_loops(distances, labels, thresholds, own_sign):
    total = 0.0
    for row, label in zip(distances, labels, strict=True):
        for k, distance in enumerate(row):
            sign = own_sign if k == label else -own_sign
            total += max(0.0, sign * (distance - thresholds[k]))
    return total


def descend(distances, labels, own_sign, start, steps=4000, rate=0.01):
    """Minimise the loss by subgradient descent on every threshold, as the thesis does."""
    thresholds = np.full(distances.shape[1], float(start))
    own = labels[:, None] == np.arange(distances.shape[1])
    sign = np.where(own, own_sign, -own_sign)
    for _ in range(steps):
        thresholds -= rate * (-sign * (sign * (distances - thresholds) > 0)).mean(0)
    return thresholds


def test_the_loss_equals_the_printed_sum_with_the_corrected_sign(points):
    distances = torch.cdist(points.features, points.means)
    thresholds = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    expected = loss_by_loops(distances.numpy(), points.labels.numpy(), thresholds.numpy(), +1)
    assert threshold_loss(distances, points.labels, thresholds).item() == pytest.approx(expected)


def test_gradients_of_the_loss_are_right(points):
    distances = torch.cdist(points.features, points.means)
    thresholds = torch.tensor([1.1, 2.2, 3.3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda t: threshold_loss(distances, points.labels, t), thresholds
    )


@pytest.mark.parametrize("seed", range(20))
def test_exact_thresholds_are_as_good_as_a_brute_force_over_all_kinks(seed):
    generator = np.random.default_rng(seed)
    samples, classes = generator.integers(1, 30), generator.integers(1, 5)
    distances = np.round(generator.uniform(0, 3, (samples, classes)), 1)  # with ties
    labels = generator.integers(0, classes, samples)
    found = exact_thresholds(torch.tensor(distances), torch.tensor(labels)).numpy()
    for k in range(classes):
        if not (labels == k).any():
            continue  # any small threshold is best; ours is the median of the others

        def loss(threshold, k=k):
            return loss_by_loops(distances[:, [k]], np.where(labels == k, 0, 1), [threshold], +1)

        best = min(loss(threshold) for threshold in distances[:, k])  # a minimum lies at a kink
        assert loss(found[k]) == pytest.approx(best)


def test_separable_classes_get_the_middle_of_the_gap():
    distances = torch.tensor([[1.0, 9.0], [2.0, 9.0], [6.0, 1.0], [7.0, 1.0]])
    thresholds = exact_thresholds(distances, torch.tensor([0, 0, 1, 1]))
    assert thresholds.tolist() == [4.0, 5.0]


def test_the_printed_sign_fails_on_a_toy_where_the_corrected_one_works():
    """Four tight classes far apart: own distances near 1, distances to the others near 10."""
    labels = np.repeat(range(4), 50)
    own = labels[:, None] == np.arange(4)
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, own.shape)
    distances = np.where(own, 1.0, 10.0) + noise

    def accepted(thresholds):
        inside = distances <= thresholds
        return inside[own].mean(), inside[~own].mean()

    for works in (
        descend(distances, labels, +1, start=0.0),
        exact_thresholds(torch.tensor(distances), torch.tensor(labels)).numpy(),
    ):
        own_accepted, others_accepted = accepted(works)
        assert own_accepted > 0.95
        assert others_accepted == 0
    # The printed sign is paid for others that stay outside: it grows until most are inside.
    _, others_accepted = accepted(descend(distances, labels, -1, start=0.0))
    assert others_accepted > 0.6


def test_a_class_without_samples_gets_the_median_of_the_others():
    distances = torch.tensor([[1.0, 5.0, 9.0], [5.0, 3.0, 9.0]])
    thresholds = exact_thresholds(distances, torch.tensor([0, 1]))
    assert thresholds[2] in thresholds[:2]


def test_no_samples_at_all_reject_nothing():
    thresholds = exact_thresholds(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    assert thresholds.tolist() == [torch.inf, torch.inf]


def test_nan_rows_do_not_reach_the_thresholds():
    distances = torch.tensor([[1.0, 5.0], [5.0, 1.0], [torch.nan, torch.nan]])
    assert exact_thresholds(distances, torch.tensor([0, 1, 0])).tolist() == [3.0, 3.0]


def test_percentile_thresholds_are_those_of_the_own_samples():
    distances = torch.tensor([[1.0, 9.0], [2.0, 9.0], [3.0, 9.0], [9.0, 4.0]])
    labels = torch.tensor([0, 0, 0, 1])
    assert percentile_thresholds(distances, labels, 50).tolist() == [2.0, 4.0]
    assert percentile_threshold(distances, labels, 50) == pytest.approx(2.5)


def test_leaving_one_class_out_finds_the_threshold_between_known_and_unknown():
    # As knowns the samples lie at 1; with their class left out, at 4.
    distances = torch.tensor([[1.0, 4.0, 6.0], [4.0, 1.0, 6.0], [5.0, 4.0, 1.0]])
    threshold = leave_one_class_out_threshold(distances, torch.tensor([0, 1, 2]))
    assert 1.0 <= threshold < 4.0


def test_leaving_one_class_out_of_one_falls_back_to_the_median():
    distances = torch.tensor([[1.0], [2.0], [9.0]])
    assert leave_one_class_out_threshold(distances, torch.tensor([0, 0, 0])) == 2.0


def pairwise(features):
    return ((features[:, None] - features[None]) ** 2).sum(-1)


def soft_nearest_neighbour(distances, labels):
    """By loops, from the printed equation."""
    losses = []
    for i in range(len(labels)):
        others = [j for j in range(len(labels)) if j != i]
        partners = [j for j in others if labels[j] == labels[i]]
        if partners:
            own = sum(math.exp(-distances[i, j]) for j in partners)
            everyone = sum(math.exp(-distances[i, j]) for j in others)
            losses.append(-math.log(own / everyone))
    return sum(losses) / len(losses)


def test_deep_nno_loss_equals_the_printed_equation(points):
    distances = torch.cdist(points.features, points.means)
    scores = np.exp(-distances.numpy() / 2)
    expected = 0.0
    for row, label in zip(scores, points.labels.tolist(), strict=True):
        expected -= math.log(row[label])
        expected -= sum(math.log(1 - s) for c, s in enumerate(row) if c != label)
    found = one_against_rest_loss(distances, points.labels, margin=1e-12)
    assert found.item() == pytest.approx(expected / len(scores))


def test_deep_nno_loss_is_clamped_where_a_sample_lies_on_a_foreign_mean():
    distances = torch.tensor([[1.0, 0.0]], requires_grad=True)
    loss = one_against_rest_loss(distances, torch.tensor([0]), margin=1e-4)
    loss.backward()
    assert loss.item() == pytest.approx(0.5 - math.log(1e-4))
    assert distances.grad is not None
    assert distances.grad.isfinite().all()


def test_global_clustering_equals_cross_entropy_normalised_once(points):
    distances = torch.cdist(points.features, points.means).square() / 3
    d = distances.numpy()
    own = d[np.arange(24), points.labels.numpy()]
    expected = (own + np.log(np.exp(-d).sum(1))).mean()
    assert global_clustering_loss(distances, points.labels).item() == pytest.approx(expected)


def test_local_clustering_equals_the_printed_equation(points):
    distances = pairwise(points.features) / 3
    expected = soft_nearest_neighbour(distances.numpy(), points.labels.numpy())
    assert local_clustering_loss(distances, points.labels).item() == pytest.approx(expected)


def test_samples_without_a_partner_are_left_out(points):
    labels = torch.tensor([0, 0, 1, 2, 0, 1])  # class 2 has one sample
    distances = pairwise(points.features[:6]) / 3
    expected = soft_nearest_neighbour(distances.numpy(), labels.numpy())
    assert local_clustering_loss(distances, labels).item() == pytest.approx(expected)


def test_a_batch_without_partners_has_loss_zero_with_a_gradient(points):
    features = points.features[:3].clone().requires_grad_()
    loss = local_clustering_loss(pairwise(features), torch.tensor([0, 1, 2]))
    loss.backward()
    assert loss.item() == 0
    assert features.grad is not None
    assert features.grad.eq(0).all()


def test_local_clustering_survives_distances_beyond_the_range_of_exp():
    distances = torch.tensor([[0.0, 1e4, 2e4], [1e4, 0.0, 3e4], [2e4, 3e4, 0.0]])
    assert local_clustering_loss(distances, torch.tensor([0, 0, 1])).isfinite()


def test_distillation_is_the_norm_not_its_square():
    features, old = torch.tensor([[3.0, 4.0], [1.0, 1.0]]), torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    assert distillation_loss(features, old).item() == pytest.approx(2.5)


def test_distillation_at_the_old_features_has_gradient_zero_not_nan():
    features = torch.ones(2, 3, requires_grad=True)
    distillation_loss(features, torch.ones(2, 3)).backward()
    assert features.grad is not None
    assert features.grad.eq(0).all()


@pytest.mark.parametrize(
    "loss",
    [
        lambda f, m, y: one_against_rest_loss(torch.cdist(f, m), y, margin=1e-6),
        lambda f, m, y: global_clustering_loss(torch.cdist(f, m), y),
        lambda f, m, y: local_clustering_loss(pairwise(f) / 3, y),
        lambda f, m, y: distillation_loss(f, m[y]),
    ],
)
def test_gradients_are_right(loss, points):
    features = points.features[:6].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda f: loss(f, points.means, points.labels[:6]), features)


def test_an_empty_batch_has_loss_zero():
    empty, none = torch.zeros(0, 3, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    assert one_against_rest_loss(empty, none, margin=1e-4).item() == 0
    assert global_clustering_loss(empty, none).item() == 0
    assert local_clustering_loss(torch.zeros(0, 0, requires_grad=True), none).item() == 0
    assert distillation_loss(empty, empty.detach()).item() == 0
