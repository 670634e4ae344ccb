# SPDX-License-Identifier: Apache-2.0
"""The evidence against SciPy's densities, the background against data drawn from one."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from newfound_core.errors import DataError
from newfound_core.plda import (
    Background,
    class_densities,
    fit_background,
    log_ratios,
)


def world(classes=40, views=12, dimension=6, seed=0):
    """Objects and their views as the model has them, in turned coordinates."""
    generator = np.random.default_rng(seed)
    between = np.diag([9.0, 4.0, 2.0, 1.0, 0.5, 0.1][:dimension])
    turn = np.linalg.qr(generator.normal(size=(dimension, dimension)))[0]
    means = generator.multivariate_normal(np.zeros(dimension), between, classes)
    points = means[:, None] + generator.normal(size=(classes, views, dimension))
    labels = np.repeat(np.arange(classes), views)
    features = points.reshape(-1, dimension) @ turn + 3.0
    return torch.tensor(features), torch.tensor(labels), turn, between


def test_the_evidence_is_the_ratio_of_the_predictive_densities():
    features, _, turn, between = world()
    within = np.eye(6)
    projection = torch.tensor(turn.T)
    background = Background(
        torch.full((6,), 3.0, dtype=torch.float64), projection, torch.tensor(np.diag(between))
    )
    count = torch.tensor([1, 5])
    means = torch.stack([features[0], features[12:17].mean(0)])
    found = log_ratios(background, class_densities(background, means, count), features[:30])

    # Independently, with full matrices: m | views and x | views of a Gaussian with Gaussian mean.
    full = turn.T @ between @ turn
    for column in range(2):
        n = int(count[column])
        gain = full @ np.linalg.inv(full + within / n)
        mean = 3.0 + gain @ (means[column].numpy() - 3.0)
        covariance = within + full - gain @ full
        expected = multivariate_normal(mean, covariance).logpdf(features[:30].numpy())
        expected -= multivariate_normal(np.full(6, 3.0), full + within).logpdf(
            features[:30].numpy()
        )
        np.testing.assert_allclose(found.evidence[:, column].numpy(), expected, rtol=1e-8)


def test_squares_at_an_evidence_are_those_that_give_it():
    features, *_ = world()
    background = fit_background(features, torch.arange(480) // 12, 6)
    densities = class_densities(background, features[:3], torch.tensor([1, 2, 3]))
    ratios = log_ratios(background, densities, features[:4])
    column = torch.tensor([0, 1, 2, 1])
    own = ratios.evidence.gather(1, column[:, None])[:, 0]
    squares = ratios.squares.gather(1, column[:, None])[:, 0]
    torch.testing.assert_close(ratios.squares_at(own, column), squares)


def test_the_background_of_drawn_data_is_the_one_they_were_drawn_from():
    features, labels, _, between = world(classes=3000)
    found = fit_background(features, labels, 6, within_shrinkage=0, between_shrinkage=0)
    expected = np.sort(np.diag(between))
    np.testing.assert_allclose(found.between.numpy(), expected, rtol=0.15)
    views = found.project(features).numpy().reshape(3000, 12, 6)
    spread = (views - views.mean(1, keepdims=True)).reshape(-1, 6)
    within = spread.T @ spread / (len(spread) - 3000)
    np.testing.assert_allclose(within, np.eye(6), atol=0.02)


@pytest.mark.parametrize("views", [1, 2])
def test_few_views_of_few_classes_still_give_a_background(views):
    features = torch.randn(2 * views, 8, generator=torch.Generator().manual_seed(0))
    found = fit_background(features, torch.arange(2 * views) // views, 5)
    assert found.projection.isfinite().all()
    assert (found.between > 0).all()


def test_a_single_view_gives_no_background():
    with pytest.raises(DataError, match="at least two views, got 1"):
        fit_background(torch.randn(1, 8), torch.tensor([0]), 5)


def test_more_views_make_a_class_surer_of_its_own_and_of_others():
    features, labels, *_ = world()
    background = fit_background(features[240:], labels[240:], 6)
    own, other = features[6:12], features[48:60]
    near, far = [], []
    for views in (1, 6):
        mean, count = features[:views].mean(0, keepdim=True), torch.tensor([views])
        densities = class_densities(background, mean, count)
        near.append(log_ratios(background, densities, own).evidence.mean())
        far.append(log_ratios(background, densities, other).evidence.mean())
    assert near[1] > near[0] > 0
    assert far[1] < 0
