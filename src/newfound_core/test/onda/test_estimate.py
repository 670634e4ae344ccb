# SPDX-License-Identifier: Apache-2.0
import torch
from newfound_core.onda.estimate import Estimate
from newfound_core.onda.layers import Statistics


def test_only_rows_that_would_move_must_be_finite():
    mean = torch.tensor([0.0, float("nan")])
    statistics = Statistics(mean, torch.ones(2))
    assert Estimate(statistics, torch.tensor([1.0, 0.0])).is_finite()
    assert not Estimate(statistics, torch.tensor([1.0, 0.1])).is_finite()
