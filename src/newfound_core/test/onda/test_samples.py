# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from newfound_core.onda.samples import FrameSamples, sample_grid


def test_large_maps_are_looked_at_on_a_grid_that_moves_until_all_is_seen():
    x = torch.arange(64.0).view(1, 1, 8, 8)
    seen = [sample_grid(x, positions=16, frame=frame).flatten() for frame in range(4)]
    assert all(values.shape == (16,) for values in seen)
    assert sorted(torch.cat(seen).tolist()) == list(range(64))


def test_the_grid_is_the_same_in_any_memory_layout():
    x = torch.randn(2, 5, 9, 7)
    expected = x[:, :, 1::2, 0::2][:, :, :4, :3].movedim(1, -1)
    for layout in (torch.contiguous_format, torch.channels_last):
        assert torch.equal(sample_grid(x.to(memory_format=layout), 16, frame=1), expected)
    wider = torch.randn(2, 8, 9, 7)
    part = wider[:, 2:7]  # a view that starts inside its storage
    assert torch.equal(
        sample_grid(part, 16, 1), part[:, :, 1::2, ::2][:, :, :4, :3].movedim(1, -1)
    )


@pytest.mark.parametrize("positions", [1, 7, 63, 64, 1000])
@pytest.mark.parametrize("size", [(5, 13), (1, 50), (7, 7)])
def test_a_grid_is_never_empty(positions, size):
    for frame in range(40):
        assert sample_grid(torch.zeros(1, 2, *size), positions, frame).numel() >= 2


def expected(inputs):
    """Mean and variance over all values of each layer; nil for a layer without input."""
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
