# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
import torch
from newfound_core.open_world.losses import (
    distillation_loss,
    global_clustering_loss,
    local_clustering_loss,
    one_against_rest_loss,
)


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


def test_a_batch_where_nobody_has_a_partner_has_loss_zero_with_a_gradient(points):
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
    empty, nobody = torch.zeros(0, 3, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    assert one_against_rest_loss(empty, nobody, margin=1e-4).item() == 0
    assert global_clustering_loss(empty, nobody).item() == 0
    assert local_clustering_loss(torch.zeros(0, 0, requires_grad=True), nobody).item() == 0
    assert distillation_loss(empty, empty.detach()).item() == 0
