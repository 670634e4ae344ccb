# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
import torch

from newfound_core.calibration import (
    Calibration,
    Trial,
    calibration_error,
    fit_calibration,
    probabilities,
)
from newfound_core.errors import ConfigError


def test_probabilities_are_those_of_the_equation():
    evidence = np.array([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0]])
    facts = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    calibration = Calibration(0.7, -0.3, (0.2, -0.4))
    odds = 0.7 * evidence - 0.3 + facts @ [0.2, -0.4] - math.log(3)
    known = np.exp(odds) / (1 + np.exp(odds).sum(1, keepdims=True))
    unknown = 1 / (1 + np.exp(odds).sum(1))

    offset = calibration.offset(torch.tensor(facts))
    found = probabilities(calibration.log_odds(torch.tensor(evidence), offset, 3)).numpy()
    np.testing.assert_allclose(found[:, :3], known, rtol=1e-12)
    np.testing.assert_allclose(found[:, 3], unknown, rtol=1e-12)


def test_a_class_without_evidence_has_no_probability():
    evidence = torch.tensor([[1.0, -torch.inf], [torch.nan, -torch.inf]])
    odds = Calibration(1.0, 0.0).log_odds(evidence, torch.zeros(2), 2)
    found = probabilities(odds)
    assert found[:, 1].tolist() == [0, 0]
    assert found[1].tolist() == [0, 0, 1]


def drawn(classes, samples, generator):
    """Evidence whose true log odds are known: likelihood ratios of two Gaussians."""
    truth = torch.randint(classes, (samples,), generator=generator)
    truth = torch.where(torch.rand(samples, generator=generator) < 0.5, classes, truth)
    x = torch.randn(samples, classes, generator=generator, dtype=torch.float64)
    for index in range(classes):
        x[truth == index, index] += 2
    return Trial(2 * x - 2, truth, torch.zeros(classes, 0))  # log N(x; 2, 1) / N(x; 0, 1)


def test_the_fit_finds_the_true_slope_and_bias():
    trial = drawn(5, 20000, torch.Generator().manual_seed(0))
    twice = Trial(4 * trial.evidence + 3, trial.truth, trial.facts)
    found = fit_calibration([twice])
    assert found.slope == pytest.approx(0.25, rel=0.05)
    assert found.bias == pytest.approx(-0.75, abs=0.1)
    confidence, label = probabilities(
        found.log_odds(twice.evidence, found.offset(twice.facts), 5)
    ).max(1)
    assert calibration_error(confidence, label == twice.truth) < 0.02


def test_leaving_classes_out_makes_an_unknown_object_of_each_sample():
    evidence = torch.tensor([[2.0, 1.0], [0.0, 3.0]])
    trial = Trial.leaving_classes_out(evidence, torch.tensor([0, 1]), torch.zeros(2, 0))
    assert trial.truth.tolist() == [0, 1, 2, 2]
    assert trial.evidence[2:].tolist() == [[-math.inf, 1.0], [0.0, -math.inf]]


def test_one_class_or_a_handful_of_samples_give_no_calibration():
    facts = torch.zeros(2, 0)
    few = Trial.leaving_classes_out(torch.randn(4, 2), torch.tensor([0, 1, 0, 1]), facts)
    zeros = torch.zeros(40, dtype=torch.int64)
    one = Trial.leaving_classes_out(torch.randn(40, 1), zeros, facts[:1])
    assert fit_calibration([few]) is None
    assert fit_calibration([one]) is None
    assert fit_calibration([]) is None


def test_separable_samples_give_a_finite_slope():
    truth = torch.arange(40) % 3
    evidence = torch.full((40, 2), -1e5).scatter(1, truth.clamp_max(1)[:, None], 1e5)
    evidence[truth == 2] = -1e5
    found = fit_calibration([Trial(evidence, truth, torch.zeros(2, 0))])
    assert found is not None
    assert math.isfinite(found.slope)


def test_a_slope_that_is_not_positive_is_refused():
    with pytest.raises(ConfigError, match="slope must be positive"):
        Calibration(0.0, 1.0)
    with pytest.raises(ConfigError, match="finite"):
        Calibration(1.0, 0.0, (math.nan,))


def test_the_calibration_error_is_the_mean_gap_over_bins():
    confidence = torch.tensor([0.95, 0.95, 0.95, 0.95, 0.55, 0.55])
    right = torch.tensor([True, True, True, False, True, False])
    expected = (4 * abs(0.95 - 0.75) + 2 * abs(0.55 - 0.5)) / 6
    assert calibration_error(confidence, right) == pytest.approx(expected)
    assert calibration_error(confidence[:0], right[:0]) is None
