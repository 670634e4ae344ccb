# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest
import torch

from newfound_core.errors import DataError
from newfound_core.open_world.means import (
    SCREEN_DIMENSIONS,
    ClassMeans,
    FeatureSums,
    MeanSearch,
    root,
    scaled_distances,
    squared_distances,
)


def direct(rows, columns):
    return ((rows[:, None] - columns[None]) ** 2).sum(-1)


def test_squared_distances_equal_the_direct_form(points):
    found = squared_distances(points.features, points.means).numpy()
    np.testing.assert_allclose(found, direct(points.features.numpy(), points.means.numpy()))


def test_long_features_close_together_keep_their_digits_in_single_precision():
    """Features of length 1,800 whose distances are near 1: the plain form is off by tenths."""
    generator = torch.Generator().manual_seed(0)
    offset = 50 * torch.ones(1280)
    rows = offset + torch.randn(64, 1280, generator=generator) / 50
    columns = offset + torch.randn(32, 1280, generator=generator) / 50
    exact = direct(rows.double().numpy(), columns.double().numpy())
    plain = rows.square().sum(1, keepdim=True) + columns.square().sum(1) - 2 * rows @ columns.T
    assert np.abs(plain.numpy() - exact).max() > 0.1
    np.testing.assert_allclose(squared_distances(rows, columns).numpy(), exact, rtol=2e-5)


def test_gradients_are_right(points):
    rows = points.features[:4].clone().requires_grad_()
    columns = points.means.clone().requires_grad_()
    assert torch.autograd.gradcheck(squared_distances, (rows, columns))


def test_a_vanishing_distance_has_gradient_zero_not_nan():
    feature = torch.ones(1, 3, requires_grad=True)
    root(squared_distances(feature, torch.ones(2, 3))).sum().backward()
    assert feature.grad is not None
    assert feature.grad.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize(
    ("form", "expected"), [("norm", 3.0), ("squared", 9.0), ("squared_summed", 0.9)]
)
def test_the_forms_of_the_distance(form, expected):
    squares, variance = torch.tensor([[36.0]]), torch.tensor(4.0)
    assert scaled_distances(squares, variance, form, 10).item() == pytest.approx(expected)


def test_a_variance_of_zero_gives_no_nan():
    distances = scaled_distances(torch.tensor([[0.0, 1.0]]), torch.tensor(0.0), "norm")
    assert distances.isfinite().all()


def three_classes(dimension=5):
    means = ClassMeans(dimension)
    means.extend(3)
    return means


def test_online_means_equal_the_means_of_all_samples_seen(points):
    means = three_classes()
    for part in torch.arange(24).split(7):
        means.update(points.features[part].float(), points.labels[part])
    x, y = points.features.numpy(), points.labels.numpy()
    expected = np.stack([x[y == c].mean(0) for c in range(3)])
    np.testing.assert_allclose(means.value.numpy(), expected, atol=1e-6)
    assert means.count.tolist() == [8, 8, 8]


def test_the_update_is_the_printed_equation_on_a_hand_worked_example():
    means = ClassMeans(1)
    means.extend(1)
    means.update(torch.tensor([[1.0], [3.0]]), torch.tensor([0, 0]))  # mean 2, count 2
    means.update(torch.tensor([[8.0]]), torch.tensor([0]))  # (2*2 + 1*8) / 3
    assert means.value.item() == pytest.approx(4.0)


def test_growing_counts_freeze_the_means_and_restarted_counts_do_not():
    """Features drift from 0 to 9 over ten epochs; the last epoch's are all 9."""
    growing, restarted = ClassMeans(1), ClassMeans(1)
    growing.extend(1)
    restarted.extend(1)
    for epoch in range(10):
        restarted.restart_counts()
        for _ in range(5):
            batch = torch.full((4, 1), float(epoch)), torch.zeros(4, dtype=torch.int64)
            growing.update(*batch)
            restarted.update(*batch)
    assert growing.value.item() == pytest.approx(4.5)
    assert restarted.value.item() == pytest.approx(9.0)


def test_no_gradient_flows_through_the_means():
    means = three_classes(2)
    features = torch.ones(2, 2, requires_grad=True)
    means.update(features, torch.tensor([0, 1]))
    assert not means.value.requires_grad


def test_samples_with_nan_or_infinity_are_left_out():
    means = three_classes(2)
    features = torch.tensor([[1.0, 1.0], [torch.nan, 1.0], [torch.inf, 0.0], [3.0, 3.0]])
    means.update(features, torch.tensor([0, 0, 1, 0]))
    assert means.value[0].tolist() == [2.0, 2.0]
    assert means.seen.tolist() == [True, False, False]
    assert means.value.isfinite().all()


def test_a_class_absent_from_the_batch_keeps_its_mean():
    means = three_classes(1)
    means.update(torch.tensor([[1.0], [2.0]]), torch.tensor([0, 1]))
    means.restart_counts()
    means.update(torch.tensor([[5.0]]), torch.tensor([0]))
    assert means.value[:, 0].tolist() == [5.0, 2.0, 0.0]


def test_unseen_classes_start_from_the_batch_without_being_counted():
    means = three_classes(1)
    means.update(torch.tensor([[1.0]]), torch.tensor([0]))
    means.start_unseen(torch.tensor([[9.0], [4.0]]), torch.tensor([0, 2]))
    assert means.value[:, 0].tolist() == [1.0, 0.0, 4.0]
    assert means.count.tolist() == [1, 0, 0]


def test_forgetting_moves_later_classes_down():
    means = three_classes(1)
    means.update(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 1, 2]))
    means.forget(1)
    assert means.value[:, 0].tolist() == [1.0, 3.0]
    assert len(means) == 2


def test_sums_give_the_variance_of_a_data_set(points):
    sums = FeatureSums(3, 5).add_all(
        (points.features[p] + 100, points.labels[p]) for p in torch.arange(24).split(5)
    )
    expected = points.features.numpy().var(axis=0).mean()
    assert sums.variance() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("features", "labels", "words"),
    [
        (torch.zeros(2, 4), torch.tensor([0, 1]), r"expected \[N, 5\]"),
        (torch.zeros(2, 5), torch.tensor([0, 3]), "knows 3 classes"),
        (torch.zeros(2, 5), torch.tensor([0, -1]), "knows 3 classes"),
        (torch.zeros(2, 5), torch.tensor([0.0, 1.0]), "torch.int64"),
        (torch.zeros(2, 5), torch.tensor([0]), r"expected \[2\]"),
    ],
)
def test_wrong_batches_are_named(features, labels, words):
    with pytest.raises(DataError, match=words):
        three_classes().update(features, labels)


def clustered(classes=600, dimension=160, samples=50, seed=0, offset=5.0):
    """Means near a subspace, as those of a network are, and samples around some of them."""
    generator = torch.Generator().manual_seed(seed)
    spectrum = torch.arange(1, dimension + 1) ** -0.5
    means = offset + torch.randn(classes, dimension, generator=generator) * spectrum
    own = torch.randint(classes, (samples,), generator=generator)
    noise = 0.2 * torch.randn(samples, dimension, generator=generator) * spectrum
    return means, means[own] + noise, own


def exact_squares(features, means):
    return ((features.double()[:, None] - means.double()[None]) ** 2).sum(-1).numpy()


near_and_far_from_the_origin = pytest.mark.parametrize("offset", [0.0, 0.5, 5.0, 100.0])


@near_and_far_from_the_origin
def test_all_distances_equal_the_direct_form_in_double_precision(offset):
    means, features, _ = clustered(offset=offset)
    found = MeanSearch(means).squares(features).numpy()
    np.testing.assert_allclose(found, exact_squares(features, means), rtol=1e-4, atol=1e-4)


@near_and_far_from_the_origin
def test_the_shortlist_holds_the_nearest_class_with_its_full_distance(offset):
    means, features, own = clustered(offset=offset)
    squares, classes = MeanSearch(means).candidates(features, 12)
    assert squares.shape == classes.shape == (50, 12)
    nearest = classes.gather(1, squares.argmin(1, keepdim=True))[:, 0]
    exact = exact_squares(features, means)
    assert nearest.tolist() == exact.argmin(1).tolist() == own.tolist()
    expected = np.take_along_axis(exact, classes.numpy(), 1)
    np.testing.assert_allclose(squares.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("classes", "shortlist"), [(30, 12), (600, 0), (5, 12)])
def test_few_classes_or_no_shortlist_look_at_every_class(classes, shortlist):
    means, features, _ = clustered(classes)
    squares, columns = MeanSearch(means).candidates(features, shortlist)
    assert squares.shape == (50, classes)
    assert columns.tolist() == list(range(classes))


def test_a_nan_feature_stays_in_its_row():
    means, features, own = clustered()
    features[3, 7] = torch.nan
    squares, classes = MeanSearch(means).candidates(features, 12)
    assert squares[3].isnan().all()
    nearest = classes.gather(1, squares.argmin(1, keepdim=True))[:, 0]
    assert nearest[4:].tolist() == own[4:].tolist()


def test_it_notices_that_the_means_were_replaced_or_changed_in_place():
    means, _, _ = clustered(20)
    prepared = MeanSearch(means)
    assert prepared.serves(means)
    assert not prepared.serves(means.clone())
    means[0] += 1
    assert not prepared.serves(means)


def test_no_features_and_no_classes_are_fine():
    means, features, _ = clustered()
    squares, _ = MeanSearch(means).candidates(features[:0], 12)
    assert squares.shape == (0, 12)
    assert MeanSearch(means[:0]).squares(features).shape == (50, 0)


def test_fewer_dimensions_than_the_screen_has_are_fine():
    means, features, own = clustered(dimension=SCREEN_DIMENSIONS // 4)
    squares, classes = MeanSearch(means).candidates(features, 4)
    nearest = classes.gather(1, squares.argmin(1, keepdim=True))[:, 0]
    assert nearest.tolist() == own.tolist()
