# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch
from newfound_core.errors import DataError
from newfound_core.open_world.means import ClassMeans, FeatureSums


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
