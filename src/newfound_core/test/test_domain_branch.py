# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
import torch
from newfound_core.backbones import build_backbone
from newfound_core.domain_branch import (
    DomainBranch,
    ResidualBlock,
    assignment_entropies,
    assignment_from,
    check_softening,
)
from newfound_core.errors import ConfigError
from torch import nn


def test_softening_blends_and_tempers():
    logits = torch.tensor([[2.0, 0.0, -1.0]], dtype=torch.float64)
    tempered = np.exp(logits.numpy() / 10)
    tempered /= tempered.sum()
    expected = 0.5 * tempered + 0.5 / 3
    np.testing.assert_allclose(assignment_from(logits, 10.0, 0.5), expected)
    np.testing.assert_allclose(assignment_from(logits).sum(), 1.0)


def test_entropies_of_a_batch_that_uses_both_domains_with_certainty():
    balance, certainty = assignment_entropies(torch.tensor([[50.0, -50.0], [-50.0, 50.0]]))
    assert float(balance) == pytest.approx(math.log(2))
    assert float(certainty) == pytest.approx(0.0, abs=1e-6)


def test_entropies_of_an_undecided_batch():
    balance, certainty = assignment_entropies(torch.zeros(3, 2))
    assert float(balance) == pytest.approx(math.log(2))
    assert float(certainty) == pytest.approx(math.log(2))


@pytest.mark.parametrize("size", [1, 3, 28])
def test_maps_smaller_than_the_step_pass(size):
    branch = DomainBranch(4, 3, reduction=4).eval()
    assert branch(torch.randn(2, 4, size, size)).shape == (2, 3)


def test_behind_a_deep_cut_the_branch_is_a_linear_layer():
    deep = DomainBranch.of(build_backbone("alexnet"), domains=2)
    assert isinstance(deep.block, nn.Identity)
    assert deep.linear.in_features == 256
    assert isinstance(DomainBranch.of(build_backbone("resnet18"), 2).block, ResidualBlock)


def test_senseless_options_are_named():
    with pytest.raises(ConfigError, match="temperature"):
        check_softening(0.0, 0.5)
    with pytest.raises(ConfigError, match="smoothing"):
        check_softening(1.0, 1.5)
    with pytest.raises(ConfigError, match="reduction"):
        DomainBranch(4, 2, reduction=0)
