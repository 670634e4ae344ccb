# SPDX-License-Identifier: Apache-2.0

import copy
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.normalization import AssignmentContext, DomainBatchNorm2d, weighted_statistics
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.estimators import (
    BatchEstimator,
    Estimate,
    StreamingEstimator,
    _stream,
    aside,
)
from newfound_core.onda.sampling import FrameSamples, Grid, sample_grid
from newfound_core.onda.statistics import NormalizationLayers, Statistics


@pytest.fixture
def calls(monkeypatch):
    """What is asked of CUDA, in order."""
    asked = []

    class Stream:
        def __init__(self, device):
            asked.append(f"new on {device}")

        def wait_stream(self, other):
            asked.append(f"wait for {other}")

        def synchronize(self):
            asked.append("synchronize")

    @contextmanager
    def stream(_):
        asked.append("enter")
        yield
        asked.append("leave")

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"{device} default")
    _stream.cache_clear()
    yield asked
    _stream.cache_clear()


def test_work_aside_begins_after_what_was_asked_before_and_is_done_when_left(calls):
    for _ in range(2):
        with aside(torch.device("cuda:1")):
            calls.append("work")
    once = ["wait for cuda:1 default", "enter", "work", "leave", "synchronize"]
    assert calls == ["new on cuda:1", *once, *once]


def test_work_that_fails_is_waited_for_too(calls):
    with pytest.raises(RuntimeError, match="out of memory"), aside(torch.device("cuda")):
        raise RuntimeError("out of memory")
    assert calls[-1] == "synchronize"


def test_nothing_is_asked_of_cuda_on_a_cpu(calls, network, shifted_frames):
    onda = Onda(network, OndaConfig.thesis(frames_per_update=2))
    for frame in shifted_frames(2):
        onda.predict(frame)
    assert onda.status().updates == 1
    assert calls == []


def test_only_rows_that_would_move_must_be_finite():
    mean = torch.tensor([0.0, float("nan")])
    statistics = Statistics(mean, torch.ones(2))
    assert Estimate(statistics, torch.tensor([1.0, 0.0])).is_finite()
    assert not Estimate(statistics, torch.tensor([1.0, 0.1])).is_finite()


@pytest.mark.parametrize("size", [(8, 8), (14, 14), (7, 7), (5, 13), (1, 50), (12, 7)])
@pytest.mark.parametrize("positions", [1, 7, 16, 1000])
def test_every_position_of_a_map_is_seen_equally_often(size, positions):
    x = torch.arange(float(size[0] * size[1])).view(1, 1, *size)
    period = Grid.of(*size, positions).period
    seen = [sample_grid(x, positions, frame).flatten() for frame in range(period)]
    assert {len(values) for values in seen} == {len(seen[0])}
    assert all(len(values.unique()) == len(values) for values in seen)
    times = torch.cat(seen).long().bincount(minlength=x.numel())
    assert (times == period * len(seen[0]) // x.numel()).all()
    assert torch.equal(sample_grid(x, positions, period).flatten(), seen[0])


@pytest.mark.parametrize("size", [(9, 7), (8, 8)])
def test_the_grid_is_the_same_in_any_memory_layout(size):
    x = torch.randn(2, 5, *size)
    chosen = sample_grid(torch.arange(float(x[0, 0].numel())).view(1, 1, *size), 16, frame=3)
    expected = x.flatten(2)[:, :, chosen.flatten().long()].movedim(1, -1)
    wider, larger = torch.randn(2, 8, *size), torch.randn(2, 5, size[0] + 1, size[1] + 2)
    inside, part = wider[:, 2:7], larger[:, :, 1:, 2:]  # views of parts of their storage
    inside.copy_(x)
    part.copy_(x)
    last = x.to(memory_format=torch.channels_last)
    for layout in (x, last, inside, part):
        assert torch.equal(sample_grid(layout, 16, frame=3).reshape(2, -1, 5), expected)


@pytest.mark.parametrize("positions", [1, 7, 63, 64, 1000])
@pytest.mark.parametrize("size", [(5, 13), (1, 50), (7, 7)])
def test_a_grid_is_never_empty(positions, size):
    for frame in range(40):
        assert sample_grid(torch.zeros(1, 2, *size), positions, frame).numel() >= 2


def expected(inputs):
    """Mean and variance over all values of each layer; zero for a layer without input."""
    means = [x.mean((0, 2, 3)) if x is not None else torch.zeros(c) for x, c in inputs]
    variances = [
        x.var((0, 2, 3), correction=0) if x is not None else torch.zeros(c) for x, c in inputs
    ]
    return torch.cat(means), torch.cat(variances)


def test_layers_of_many_sizes_in_any_order_keep_their_statistics_apart():
    channels = [3, 2, 4, 1]
    samples = FrameSamples(channels, positions=10**6)
    for frame in range(1, 5):  # the first allocates, the others reuse; the last has other sizes
        sides = (4, 2, 4, 2) if frame < 4 else (2, 4, 8, 2)
        inputs = [torch.randn(1, c, s, s) for c, s in zip(channels, sides, strict=True)]
        samples.begin()
        for index, x in enumerate(inputs):
            samples.take(index, x, frame)
        torch.testing.assert_close(
            samples.statistics(), expected(list(zip(inputs, channels, strict=True)))
        )
        assert samples.counts() == [s * s for s in sides]


def test_a_layer_that_rests_in_a_frame_leaves_nothing_of_the_last_one():
    samples = FrameSamples([2, 2], positions=10**6)
    inputs = [torch.randn(1, 2, 3, 3) for _ in range(2)]
    for index, x in enumerate(inputs):
        samples.take(index, x, 1)
    samples.statistics()
    samples.begin()
    samples.take(0, inputs[0], 2)
    torch.testing.assert_close(samples.statistics(), expected([(inputs[0], 2), (None, 2)]))
    assert samples.counts() == [9, 0]


def test_a_frame_that_reached_no_layer_has_no_statistics():
    samples = FrameSamples([2], positions=4)
    samples.begin()
    assert samples.statistics() is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_statistics_of_half_precision_do_not_overflow(dtype):
    samples = FrameSamples([4], positions=10**6)
    x = torch.randn(1, 4, 8, 8).to(dtype) * 300
    samples.take(0, x, frame=1)
    mean, variance = samples.statistics()
    exact = expected([(x.double(), 4)])
    torch.testing.assert_close((mean.double(), variance.double()), exact, rtol=1e-4, atol=1e-3)


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


def test_the_twin_shares_the_parameters_but_those_of_normalisation(network):
    layers = NormalizationLayers(network)
    twins = dict(BatchEstimator(layers)._twin.named_parameters())
    for name, ours in network.named_parameters():
        own = name.rpartition(".")[0] in layers.names
        assert (twins[name] is ours) == (not own)


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


def gather(network, frames, positions=10**6):
    layers = NormalizationLayers(network)
    estimator = StreamingEstimator(layers, positions)
    samples = []
    with torch.no_grad():
        for frame in frames:
            estimator.start(frame[None], [slice(0, 1)])
            network(frame[None])
            samples += estimator.finish()
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
        estimator.start(frame[None], [slice(0, 1)])
        with torch.no_grad(), context.use(w[None].float()):
            network(frame[None])
        samples += estimator.finish()
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
        estimator.start(frame[None], [slice(0, 1)])
        with torch.no_grad():
            network(frame[None])
        samples += estimator.finish()
    estimate = estimator.estimate(samples, layers.read())
    assert estimate.share.tolist() == [1.0] * 10 + [0.0] * 2
    assert estimate.is_finite()


def test_a_pass_that_overflows_gives_no_sample(network):
    with torch.no_grad():
        network[0].weight.fill_(1e30)
    samples = []
    layers = NormalizationLayers(network)
    estimator = StreamingEstimator(layers, 1000)
    estimator.start(torch.ones(1, 3, 8, 8), [slice(0, 1)])
    with torch.no_grad():
        network(torch.full((1, 3, 8, 8), 1e30))
    samples += estimator.finish()
    assert samples == [None]


def test_several_observations_of_one_pass_are_told_apart(network, shifted_frames):
    images = torch.stack(shifted_frames(5))
    layers = NormalizationLayers(network)
    estimator = StreamingEstimator(layers, 10**6)
    with torch.no_grad():
        estimator.start(images, [slice(0, 2), slice(3, 4)])
        network(images)
        pair, single = estimator.finish()
        conv = network[0](images).double().numpy()
    np.testing.assert_allclose(pair.mean[:4], conv[:2].mean((0, 2, 3)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(pair.variance[:4], conv[:2].var((0, 2, 3)), rtol=1e-4)
    np.testing.assert_allclose(single.mean[:4], conv[3].mean((1, 2)), rtol=1e-4, atol=1e-5)
    assert (pair.counts, single.counts) == ([72, 2], [36, 1])
