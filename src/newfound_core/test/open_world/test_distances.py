# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch
from newfound_core.open_world.distances import root, scaled_distances, squared_distances


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
