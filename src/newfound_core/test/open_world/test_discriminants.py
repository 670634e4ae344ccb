# SPDX-License-Identifier: Apache-2.0
"""The regression against NumPy, the sums of rows, and the calibration on drawn classes."""

import numpy as np
import pytest
import torch

from newfound_core.calibration import fit_calibration
from newfound_core.open_world.discriminants import (
    Shrinkage,
    calibrated,
    class_rows,
    cross_fitted_trials,
    discriminants,
    shortened,
)
from newfound_core.plda import ClassStatistics, class_statistics

SHRINKAGE = Shrinkage(0.3, 0.5, 0.2)


def world(classes=40, views=12, dimension=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    means = 3 * torch.randn(classes, dimension, generator=generator, dtype=torch.float64)
    noise = torch.randn(classes, views, dimension, generator=generator, dtype=torch.float64)
    return means[:, None] + noise


def test_the_regression_is_the_formula_in_numpy():
    views = world(classes=5)
    labels = torch.arange(5).repeat_interleave(12)
    found = discriminants(class_statistics(views.flatten(0, 1), labels), 3, SHRINKAGE)

    x, each = views.numpy(), views.numpy().mean(1)
    within = sum((x[k] - each[k]).T @ (x[k] - each[k]) for k in range(5)) / (5 * 12 - 5)
    centre = each.mean(0)
    gram = 5 * within + (each - centre).T @ (each - centre)
    gram += 0.2 * np.trace(gram) / 6 * np.eye(6)
    query = np.random.default_rng(1).normal(size=(7, 6))
    expected = 1 / 5 + (query - centre) @ np.linalg.inv(gram) @ (each[:3] - centre).T
    np.testing.assert_allclose(found.regression(torch.tensor(query)).numpy(), expected, rtol=1e-9)


def test_rows_have_the_scatter_of_views_and_variants_add_no_degree_of_freedom():
    views = world(classes=1)[0]
    expected = np.cov(views.numpy().T) * 11
    rows = class_rows(views[:, None])
    np.testing.assert_allclose((rows.T @ rows).numpy(), expected, rtol=1e-9)
    twice = class_rows(torch.stack([views, views], 1))
    np.testing.assert_allclose((twice.T @ twice).numpy(), expected * 24 / 23 * 11 / 12, rtol=0.1)


def test_shortened_rows_keep_the_sum_of_squares_and_the_strongest_direction():
    rows = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows[:, 2] *= 10
    short = shortened(rows, 3)
    assert short.shape == (3, 6)
    torch.testing.assert_close(short.square().sum(), rows.square().sum())
    assert short[0].abs().argmax() == 2
    assert shortened(rows, 40) is rows


def test_one_view_of_each_of_two_classes_gives_finite_answers():
    means = torch.eye(4, dtype=torch.float64)[:2]
    statistics = ClassStatistics(torch.zeros(4, 4).double(), means, torch.ones(2).long())
    found = discriminants(statistics, 2, SHRINKAGE)
    answers = found.evidence(means, 3.0)
    assert answers.isfinite().all()
    assert answers.argmax(1).tolist() == [0, 1]


def test_the_calibration_needs_classes_and_holds_for_new_ones():
    views = world(classes=60, views=30)
    labels = torch.arange(60).repeat_interleave(30)
    flat = torch.stack([views, views + 0.1 * torch.randn_like(views)], 2).flatten(0, 1)
    assert cross_fitted_trials(flat[:210], labels[:210], SHRINKAGE) == []
    assert calibrated([]) is None
    trials = cross_fitted_trials(flat, labels, Shrinkage(0, 0, 0.1))
    # The densities are true here, so that their own probabilities are nearly right.
    alone = fit_calibration([trial.combined(0.0) for trial in trials])
    assert alone is not None
    assert 0.5 < alone.slope < 1.6
    found = calibrated(trials)
    assert found is not None
    ridge_weight, calibration = found
    spreads = [(t.likely.max(1).values.std(), t.regression.max(1).values.std()) for t in trials]
    assert ridge_weight == pytest.approx(0.5 * np.mean([float(a / b) for a, b in spreads]))
    assert 0 < calibration.slope < alone.slope


def test_weights_of_facts_that_are_given_are_kept():
    trials = cross_fitted_trials(
        world(views=20)[:, :, None].flatten(0, 1),
        torch.arange(40).repeat_interleave(20),
        SHRINKAGE,
    )
    found = calibrated(trials, (0.25,))
    assert found is not None
    assert found[1].weights == (0.25,)
