# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch
from torch import nn

from newfound_core.assignment import AssignmentContext
from newfound_core.normalization import DomainBatchNorm2d
from newfound_core.onda.layers import NormalizationLayers
from newfound_core.onda.streaming import StreamingEstimator


def gather(network, frames, positions=10**6):
    layers = NormalizationLayers(network)
    estimator = StreamingEstimator(layers, positions)
    samples = []
    with torch.no_grad():
        for frame in frames:
            estimator.start(frame)
            network(frame[None])
            samples.append(estimator.finish())
    estimator.close()
    return samples, estimator.estimate(samples, layers.read())


def test_the_estimate_equals_numpy_over_all_values_with_the_right_n(network, shifted_frames):
    frames = shifted_frames(7)
    _, estimate = gather(network, frames)
    with torch.no_grad():
        conv = network[0](torch.stack(frames)).double().numpy()
        linear = network[:7](torch.stack(frames)).double().numpy()
    # n = 7 * 6 * 6 values per channel behind the convolution, n = 7 behind the linear layer.
    means = np.concatenate([conv.mean((0, 2, 3)), linear.mean(0)])
    variances = np.concatenate([conv.var((0, 2, 3), ddof=1), linear.var(0, ddof=1)])
    np.testing.assert_allclose(estimate.statistics.mean, means, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(estimate.statistics.variance, variances, rtol=1e-4, atol=1e-5)
    assert torch.equal(estimate.share, torch.ones(10))


def test_a_small_variance_around_a_large_mean_survives_single_precision():
    network = nn.Sequential(nn.BatchNorm2d(1)).eval()
    frames = [torch.randn(1, 16, 16) * 0.01 + 100 for _ in range(5)]
    _, estimate = gather(network, frames)
    exact = torch.stack(frames).double().var()
    torch.testing.assert_close(estimate.statistics.variance[0].double(), exact, rtol=1e-2, atol=0)


def test_frames_of_different_sizes_are_weighted_by_their_number_of_values():
    network = nn.Sequential(nn.BatchNorm2d(1)).eval()
    frames = [torch.randn(1, 4, 4) + 3, torch.randn(1, 8, 8)]
    _, estimate = gather(network, frames)
    values = torch.cat([frame.flatten() for frame in frames])
    torch.testing.assert_close(estimate.statistics.mean[0], values.mean())
    torch.testing.assert_close(estimate.statistics.variance[0], values.var())


def test_domains_follow_the_frames_by_their_assignment():
    context = AssignmentContext()
    network = nn.Sequential(DomainBatchNorm2d(1, 2, context)).eval()
    weights = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]], dtype=torch.float64)
    frames = [torch.randn(1, 4, 4) * (i + 1) + i for i in range(3)]
    layers = NormalizationLayers(network)
    estimator = StreamingEstimator(layers, 1000)
    samples = []
    for frame, w in zip(frames, weights, strict=True):
        estimator.start(frame)
        with torch.no_grad(), context.use(w[None].float()):
            network(frame[None])
        samples.append(estimator.finish())
    estimate = estimator.estimate(samples, layers.read())
    values = torch.stack(frames).double().reshape(3, -1).numpy()
    for d in range(2):
        w = np.repeat(weights[:, d, None].numpy(), 16, 1)
        mean = (w * values).sum() / w.sum()
        biased = (w * (values - mean) ** 2).sum() / w.sum()
        unbiased = biased / (1 - (w**2).sum() / w.sum() ** 2)
        np.testing.assert_allclose(estimate.statistics.mean[d], mean, rtol=1e-5)
        np.testing.assert_allclose(estimate.statistics.variance[d], unbiased, rtol=1e-5)
    torch.testing.assert_close(estimate.share, weights.mean(0).float())


def test_a_layer_that_did_not_run_does_not_move(network):
    with_spare = nn.ModuleDict({"used": network, "spare": nn.BatchNorm2d(2)}).eval()
    layers = NormalizationLayers(with_spare)
    estimator = StreamingEstimator(layers, 1000)
    frame = torch.randn(3, 8, 8)
    samples = []
    for _ in range(2):
        estimator.start(frame)
        with torch.no_grad():
            network(frame[None])
        samples.append(estimator.finish())
    estimate = estimator.estimate(samples, layers.read())
    assert estimate.share.tolist() == [1.0] * 10 + [0.0] * 2
    assert estimate.is_finite()


def test_a_pass_that_overflows_gives_no_sample(network):
    with torch.no_grad():
        network[0].weight.fill_(1e30)
    samples = []
    layers = NormalizationLayers(network)
    estimator = StreamingEstimator(layers, 1000)
    estimator.start(torch.ones(3, 8, 8))
    with torch.no_grad():
        network(torch.full((1, 3, 8, 8), 1e30))
    samples.append(estimator.finish())
    assert samples == [None]
