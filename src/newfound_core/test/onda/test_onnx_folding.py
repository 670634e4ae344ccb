# SPDX-License-Identifier: Apache-2.0
"""ONDA on ONNX Runtime reaches what it reaches on PyTorch."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.errors import ConfigError
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.onnx_folding import PHASES, OnnxFolding, grid_start, grid_step
from newfound_core.onda.onnx_weights import FoldedTensor, WeightBuffer
from newfound_core.onda.statistics import NormalizationLayers
from newfound_core.places import WbnClassifier

SIZE = 32
ALL = SIZE * SIZE  # positions of the largest map


class Small(nn.Module):
    """What folding meets in practice: strides, groups, a sum past the layers, a linear layer."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8))
        self.depthwise = nn.Sequential(nn.Conv2d(8, 8, 5, 1, 2, groups=8), nn.BatchNorm2d(8))
        self.pointwise = nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8))
        self.last = nn.Sequential(nn.Conv2d(8, 20, 3, 3), nn.BatchNorm2d(20), nn.ReLU6())
        self.head = nn.Sequential(nn.Linear(20, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))

    def forward(self, images):
        x = self.stem(images).relu()
        x = x + self.pointwise(self.depthwise(x).clamp(0, 6))
        return self.head(self.last(x).mean((2, 3)))


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    made = Small()
    with torch.no_grad():
        for _ in range(20):
            made(torch.randn(16, 3, SIZE, SIZE))
        made.stem[1].weight[1] = -0.4  # mirrored
    return made.eval()


def frames(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(1, 3, SIZE, SIZE, generator=generator) * 2 + 1 for _ in range(count)]


def adapter(network, config, *, onnx, positions=ALL, learn_every=1):
    """An Onda around a copy of the network."""
    copy = Small()
    copy.load_state_dict(network.state_dict())
    engine = partial(
        OnnxFolding, size=SIZE, positions=positions, learn_every=learn_every, threads=1
    )
    return Onda(copy.eval(), config, engine=engine if onnx else None)


@pytest.mark.parametrize(
    "options",
    [{"estimator": "streaming"}, {"estimator": "batch"},
     {"estimator": "streaming", "layers": "last:2"},
     {"estimator": "batch", "anchor": True, "balanced": True}],
)  # fmt: skip
def test_predictions_and_statistics_are_those_of_pytorch(network, options):
    fixed = {"frames_per_update": 4, "momentum": 0.4, "positions_per_frame": ALL}
    config = OndaConfig.thesis(**fixed, **options)
    on_onnx, on_torch = (adapter(network, config, onnx=onnx) for onnx in (True, False))
    for frame in frames(14):
        found, expected = on_onnx.predict(frame), on_torch.predict(frame)
        assert (found - expected).abs().max() <= 1e-4 * expected.abs().max()
    assert on_onnx.status() == on_torch.status()
    assert on_onnx.status().updates == 3
    for own, other in zip(on_onnx.network.buffers(), on_torch.network.buffers(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def engine(network):
    return OnnxFolding(NormalizationLayers(network), size=SIZE, positions=9, threads=1)


def test_moments_are_those_of_the_whole_map_at_the_positions_of_the_grid(network, engine):
    """Of folded layers: their input times a scale, plus an offset."""
    frame, maps, seen = torch.cat(frames(2)), {}, []
    modules = NormalizationLayers(network).modules
    handles = [
        m.register_forward_hook(lambda _, __, y, i=i: maps.update({i: y}))
        for i, m in enumerate(modules)
    ]
    for _ in range(PHASES):
        found = engine.run(frame, observe=True)
        torch.testing.assert_close(found, network(frame), rtol=1e-4, atol=1e-5)
        seen.append(by_layer(engine, network))
    for handle in handles:
        handle.remove()
    steps = {i: grid_step(tuple(m.shape[2:]), 9) for i, m in maps.items()}
    assert len(set(steps.values()) - {1}) > 1
    for phase, found in enumerate(seen):
        for index, whole in maps.items():
            number = (engine._turn + phase) % PHASES
            part = taken(whole, steps[index], number) if steps[index] > 1 else whole
            values = part.double().reshape(*part.shape[:2], -1)
            mean, variance, positions = found[index]
            assert positions == values.shape[2]
            expected = values.mean(2), values.var(2, correction=0)
            torch.testing.assert_close(mean.double(), expected[0], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(variance.double(), expected[1], rtol=1e-4, atol=1e-5)


def by_layer(engine, network):
    """Mean and variance of each image and channel, and of how many values, by layer."""
    channels, found = NormalizationLayers(network).channels, engine.moments
    widths = [channels[i] for i in found.positions]
    means, variances = (values.split(widths, 1) for values in (found.mean, found.variance))
    parts = zip(means, variances, found.positions.values(), strict=True)
    return dict(zip(found.positions, parts, strict=True))


def taken(whole, step, phase):
    """A grid of as many places in every phase, from one end of the map or the other."""
    row, column = grid_start(step, phase)
    down, right = (side // step for side in whole.shape[2:])
    part = whole[:, :, row::step, column::step]
    return part[:, :, -down:, -right:] if phase % 2 else part[:, :, :down, :right]


def test_the_grids_of_the_phases_lie_at_different_places():
    starts = {grid_start(28, phase) for phase in range(PHASES)}
    assert len(starts) == PHASES
    assert all(0 <= row < 28 and 0 <= column < 28 for row, column in starts)
    assert (grid_step((112, 112), 16), grid_step((7, 7), 16), grid_step((), 16)) == (28, 2, 1)


def test_every_frame_is_learned_from_until_settled_then_few_and_all_are_predicted(network):
    config = OndaConfig.thesis(frames_per_update=2, momentum=0.6, estimator="streaming")
    onda = adapter(network, config, onnx=True, learn_every=5)
    for frame in frames(24):  # two updates leave 0.16 of the statistics before
        assert onda.predict(frame).shape == (3,)
    status = onda.status()
    assert (status.frames, status.counted, status.updates) == (24, 8, 4)
    assert status.rejected == status.redundant == 0


def test_another_light_is_noticed_and_a_reset_begins_anew(network):
    config = OndaConfig.thesis(frames_per_update=5, momentum=0.2, estimator="streaming")
    onda = adapter(network, config, onnx=True, learn_every=5)

    def counted(stream):
        before = onda.status().counted
        for frame in stream:
            onda.predict(frame)
        return onda.status().counted - before

    assert counted(frames(40)) == 40  # 0.8^8 of the source is left
    assert counted(frames(60, seed=1)) < 30
    assert counted([frame / 4 - 2 for frame in frames(40, seed=2)]) > 30
    onda.reset()
    assert counted(frames(40, seed=3)) == 40


def test_a_replay_learns_from_the_same_frames_as_one_by_one(network):
    config = OndaConfig.thesis(frames_per_update=5, momentum=0.5, estimator="streaming")
    one, other = (adapter(network, config, onnx=True, learn_every=4) for _ in range(2))
    stream = [*frames(30), *(frame / 4 - 2 for frame in frames(20, seed=2))]
    found, expected = other.replay(torch.cat(stream)), torch.stack([*map(one.predict, stream)])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert other.status() == one.status()


def test_batch_learns_from_one_frame_in_three_since_it_watches_none(network):
    config = OndaConfig.thesis(frames_per_update=2, momentum=0.5)
    onda = adapter(network, config, onnx=True, learn_every=7)
    for frame in frames(12):
        onda.predict(frame)
    assert (onda.status().counted, onda.status().updates) == (4, 2)


def test_pytorch_learns_from_every_frame(network):
    config = OndaConfig.thesis(frames_per_update=2, momentum=0.9, estimator="streaming")
    onda = adapter(network, config, onnx=False)
    for frame in frames(40):
        onda.predict(frame)
    assert onda.status().counted == 40


def test_frozen_and_reset_reach_the_sessions(network):
    config = OndaConfig.thesis(frames_per_update=2, momentum=0.9, estimator="streaming")
    onda, [frame] = adapter(network, config, onnx=True), frames(1, seed=5)
    with torch.no_grad():
        before = network(frame)[0]
    for other in frames(4):
        onda.predict(other)
    assert not torch.allclose(onda.predict(frame), before, rtol=1e-2)
    onda.reset()
    onda.freeze()
    torch.testing.assert_close(onda.predict(frame), before, rtol=1e-4, atol=1e-5)


def test_crops_of_one_frame_run_as_a_batch(network, engine):
    crops = torch.cat(frames(5, seed=7))
    with torch.no_grad():
        torch.testing.assert_close(
            engine.run(crops, observe=False), network(crops), rtol=1e-4, atol=1e-5
        )


class First(nn.Module):
    """A normalisation layer without a convolution before it."""

    def __init__(self):
        super().__init__()
        self.first, self.conv, self.norm = nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, images):
        return self.norm(self.conv(self.first(images))).mean((2, 3))


def test_what_cannot_be_folded_is_refused_before_anything_is_traced(tiny_backbone):
    for network, said in (
        (First(), "first does not follow a convolution"),
        (WbnClassifier(tiny_backbone, 3, 2), "several domains"),
    ):
        with pytest.raises(ConfigError, match=said):
            OnnxFolding(NormalizationLayers(network.eval()), size=SIZE, positions=9)


@pytest.fixture
def tiny_backbone():
    from newfound_core.backbones import build_backbone

    return build_backbone("cifar_resnet8", width=0.25)


@pytest.mark.parametrize("blocked", [True, False])
def test_a_weight_is_scaled_in_the_order_that_the_engine_wants(blocked):
    """Blocks of 8 output channels, the last one padded: as ONNX Runtime's NCHWc layout."""
    values = np.random.default_rng(0).normal(size=(12, 5, 1, 1)).astype(np.float32)
    order = np.arange(1, 61).reshape(12, 5)
    if blocked:
        padded = np.concatenate([order, np.zeros((4, 5), np.int64)])
        order = padded.reshape(2, 8, 5).transpose(0, 2, 1).copy()  # [block, input, channel]
    buffer = WeightBuffer(FoldedTensor("w", values, slice(3, 15), is_bias=False), order)
    scale = torch.arange(100.0, 120.0)
    buffer.write(scale)
    flat = np.concatenate([[0], (values * scale[3:15].numpy()[:, None, None, None]).ravel()])
    np.testing.assert_allclose(buffer.value.numpy(), flat[order], rtol=1e-6)


def test_a_network_that_the_sessions_do_not_follow_is_refused(network, monkeypatch):
    monkeypatch.setattr(OnnxFolding, "_write_weights", lambda _: None)
    with pytest.raises(ConfigError, match="computes something else than PyTorch"):
        OnnxFolding(NormalizationLayers(network), size=SIZE, positions=9)
