# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.plda import class_densities, fit_background, log_ratios
from newfound_core.rejection import EVIDENCE, Rejection, RejectionConfig, split_unknown


def rejection(evidence, features=8, classes=3):
    module = Rejection(features, classes, RejectionConfig(evidence, directions=5))
    module.slope.fill_(0.7)
    module.bias.fill_(-0.4)
    module.temperature.fill_(1.6)
    return module


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_the_outputs_are_the_logarithms_of_the_probabilities(evidence):
    generator = torch.Generator().manual_seed(0)
    features, logits = torch.randn(6, 8, generator=generator), torch.randn(6, 3)
    module = rejection(evidence)
    found = module(features, logits).exp().numpy()

    speaks = module.evidence(features, logits).numpy()
    known = 1 / (1 + np.exp(-(0.7 * speaks - 0.4)))
    exponents = np.exp(logits.numpy() / 1.6)
    np.testing.assert_allclose(found[:, 3], 1 - known, rtol=1e-4)
    np.testing.assert_allclose(
        found[:, :3], known[:, None] * exponents / exponents.sum(1, keepdims=True), rtol=1e-4
    )
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)


def test_energy_and_maximum_logit_are_what_their_papers_say():
    logits = torch.tensor([[1.0, 2.0, -1.0]])
    energy = rejection("energy").evidence(torch.zeros(1, 8), logits)
    assert float(energy) == pytest.approx(math.log(math.e + math.e**2 + math.exp(-1)))
    assert float(rejection("max_logit").evidence(torch.zeros(1, 8), logits)) == 2


def test_the_distance_is_the_evidence_of_the_background_model():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 3
    features = torch.randn(3, 8, generator=generator)[labels] * 2
    features = features + torch.randn(60, 8, generator=generator)
    module = rejection("distance")
    module.fit_classes(features, labels)

    shaped = torch.nn.functional.normalize(features, dim=1).double()
    background = fit_background(shaped, labels, 5)
    means = torch.stack([shaped[labels == c].mean(0) for c in range(3)])
    densities = class_densities(background, means, torch.tensor([20, 20, 20]))
    expected = log_ratios(background, densities, shaped).evidence
    torch.testing.assert_close(
        module.class_evidence(features).double(), expected, rtol=1e-3, atol=1e-3
    )


def test_a_classifier_without_rejection_knows_everything():
    logits = torch.tensor([[1.0, 0.0]])
    known, unknown = split_unknown(logits, 2)
    assert torch.equal(known, logits.softmax(1))
    assert unknown.tolist() == [0.0]


def test_known_probabilities_sum_to_one_beside_that_of_the_unknown():
    logits = rejection("energy")(torch.zeros(2, 8), torch.randn(2, 3))
    known, unknown = split_unknown(logits, 3)
    torch.testing.assert_close(known.sum(1), torch.ones(2))
    torch.testing.assert_close(unknown, logits.exp()[:, 3])


def test_an_unknown_kind_of_evidence_is_refused():
    with pytest.raises(ConfigError, match="evidence must be one of"):
        RejectionConfig("guess")
