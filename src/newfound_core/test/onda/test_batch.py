# SPDX-License-Identifier: Apache-2.0
import copy

import torch
from newfound_core.assignment import AssignmentContext
from newfound_core.normalization import DomainBatchNorm2d, weighted_statistics
from newfound_core.onda.batch import BatchEstimator
from newfound_core.onda.layers import NormalizationLayers
from torch import nn


def test_the_estimate_is_that_of_a_training_pass_without_dropout(network, shifted_frames):
    frames = torch.stack(shifted_frames(6))
    reference = copy.deepcopy(network).train()
    reference[5].eval()  # dropout
    for index in (1, 7):
        reference[index].momentum = 1.0
    reference(frames)
    layers = NormalizationLayers(network)
    estimate = BatchEstimator(layers).estimate(list(frames[:, None]), layers.read())
    expected = NormalizationLayers(reference).read()
    torch.testing.assert_close(estimate.statistics.mean, expected.mean)
    torch.testing.assert_close(estimate.statistics.variance, expected.variance)


def test_the_network_itself_is_not_touched(network, shifted_frames):
    before = copy.deepcopy(network.state_dict())
    layers = NormalizationLayers(network)
    BatchEstimator(layers).estimate([f[None] for f in shifted_frames(4)], layers.read())
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert not any(module.training for module in network.modules())
    assert network[1].momentum == 0.1


def test_the_twin_shares_the_parameters(network):
    estimator = BatchEstimator(NormalizationLayers(network))
    ours, twins = network.parameters(), estimator._twin.parameters()
    assert all(a is b for a, b in zip(ours, twins, strict=True))


def test_a_change_of_format_leaves_nothing_to_estimate(network):
    layers = NormalizationLayers(network)
    frames = [torch.randn(1, 3, 8, 8), torch.randn(1, 3, 12, 12)]
    estimate = BatchEstimator(layers).estimate(frames, layers.read())
    assert estimate.share.sum() == 0


class Gated(nn.Module):
    """Assigns a frame to its first domain by the mean of its pixels."""

    def __init__(self):
        super().__init__()
        self.assignment = AssignmentContext()
        self.norm = DomainBatchNorm2d(3, 2, self.assignment)

    def forward(self, x):
        first = x.mean((1, 2, 3)).sigmoid()
        with self.assignment.use(torch.stack([first, 1 - first], 1)):
            return self.norm(x)


def test_a_network_with_domains_estimates_each_by_its_assignment():
    network = Gated().eval()
    frames = [torch.randn(1, 3, 4, 4) + i for i in range(3)]
    layers = NormalizationLayers(network)
    estimate = BatchEstimator(layers).estimate(frames, layers.read())
    x = torch.cat(frames)
    first = x.mean((1, 2, 3)).sigmoid()
    weights = torch.stack([first, 1 - first], 1)
    expected = weighted_statistics(x, weights)
    torch.testing.assert_close(estimate.statistics.mean, expected.mean.flatten())
    torch.testing.assert_close(estimate.share, weights.mean(0).repeat_interleave(3))
