# SPDX-License-Identifier: Apache-2.0
"""Scale and bias of a domain: served with its statistics, and refined at run time."""

import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.errors import CheckpointError, ConfigError, DataError
from newfound_core.models import load_model
from newfound_core.normalization import DomainBatchNorm2d
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.onnx_folding import OnnxFolding
from newfound_core.onda.refinement import Refinement
from newfound_core.onda.statistics import NormalizationLayers, Statistics
from newfound_core.testing import tiny


def domain_of(network, seed=0):
    """Statistics with a scale and a bias of their own."""
    layers, generator = NormalizationLayers(network), torch.Generator().manual_seed(seed)
    source, (scale, bias) = layers.read(), layers.source_affine()
    noise = torch.rand(4, len(source.mean), generator=generator)
    return Statistics(source.mean + noise[0], source.variance * (1 + noise[1]),
                      scale * (1 + noise[2]), bias + noise[3])  # fmt: skip


def by_hand(network, statistics):
    """A copy with these statistics and parameters in its layers."""
    network, start = copy.deepcopy(network), 0
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            rows = slice(start, start := start + module.num_features)
            module.running_mean.copy_(statistics.mean[rows])
            module.running_var.copy_(statistics.variance[rows])
            module.weight.data.copy_(statistics.scale[rows])
            module.bias.data.copy_(statistics.bias[rows])
    return network


def test_scale_and_bias_serve_with_the_statistics_and_the_source_comes_back(network):
    images, layers = torch.randn(5, 3, 8, 8), NormalizationLayers(network)
    source, given = layers.read(), domain_of(network)
    with torch.no_grad():
        before, expected = network(images), by_hand(network, given)(images)
        layers.write(given)
        torch.testing.assert_close(network(images), expected)
        assert layers.read().scale is not None
        layers.write(source)
        assert torch.equal(network(images), before)
    assert layers.read().scale is None


@pytest.mark.parametrize("engine", [None, partial(OnnxFolding, size=32, positions=16)])
def test_the_serving_network_takes_them_whatever_runs_it(tmp_path, engine):
    network = load_model(tiny(tmp_path / "model")).model
    given, images = domain_of(network), torch.randn(3, 3, 32, 32)
    expected = [by_hand(network, given)(images), network(images)]
    config = OndaConfig.thesis(2, estimator="streaming" if engine else "batch")
    onda = Onda(network, config, engine=engine)
    onda.start_from(given, "hall")
    onda.freeze()
    found = onda.replay(images)
    torch.testing.assert_close(found, expected[0].detach(), rtol=1e-3, atol=1e-4)
    onda.start_from(onda.source, "source")
    torch.testing.assert_close(onda.replay(images), expected[1].detach(), rtol=1e-3, atol=1e-4)


def test_onda_moves_the_statistics_and_leaves_scale_and_bias(network, shifted_frames):
    onda = Onda(network, OndaConfig.thesis(4))
    given = domain_of(network)
    onda.start_from(given, "hall")
    onda.replay(torch.stack(shifted_frames(8)))
    assert not torch.equal(onda.online.mean, given.mean)
    assert torch.equal(onda.online.scale, given.scale)


def test_a_state_keeps_them(network, tmp_path):
    onda, given = Onda(network, OndaConfig.thesis(4)), domain_of(network)
    onda.start_from(given, "hall")
    onda.save(tmp_path / "state")
    onda.start_from(onda.source, "source")
    onda.restore(tmp_path / "state")
    torch.testing.assert_close(NormalizationLayers(network).read().mean, given.mean)
    torch.testing.assert_close(onda.online.bias, given.bias)


def test_parts_that_do_not_fit_are_refused(network):
    onda, given = Onda(network), domain_of(network)
    for wrong in (replace(given, bias=None), replace(given, scale=given.scale[1:])):
        with pytest.raises(DataError):
            onda.start_from(wrong, "hall")
    with pytest.raises(ConfigError, match="refine_rate"):
        OndaConfig(refine_rate=0.1, estimator="streaming", balanced=False)
    shared = nn.Sequential(nn.Conv2d(3, 4, 1), DomainBatchNorm2d(4, 2)).eval()
    with pytest.raises(ConfigError, match="plain batch normalisation"):
        Onda(shared, OndaConfig(refine_rate=0.1))


def adam_by_hand(x, state, weight, offset, steps, rate):
    """Entropy steps on gamma and beta of BN(x) before a linear layer, in NumPy."""
    gamma, beta = state
    hat = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
    moments = np.zeros((2, 2, len(gamma)))
    for step in range(1, steps + 1):
        z = (gamma * hat + beta) @ weight.T + offset
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        entropy = -(p * np.log(p)).sum(1, keepdims=True)
        at_y = -p * (np.log(p) + entropy) / len(x) @ weight
        gradient = np.stack([(at_y * hat).sum(0), at_y.sum(0)])
        moments[0] = 0.9 * moments[0] + 0.1 * gradient
        moments[1] = 0.999 * moments[1] + 0.001 * gradient**2
        first, second = moments[0] / (1 - 0.9**step), moments[1] / (1 - 0.999**step)
        gamma, beta = np.stack([gamma, beta]) - rate * first / (np.sqrt(second) + 1e-8)
    return gamma, beta


def small():
    torch.manual_seed(3)
    return nn.Sequential(nn.Identity(), nn.BatchNorm1d(5), nn.Linear(5, 4)).double().eval()


def test_refinement_is_adam_on_the_entropy_with_the_frames_own_statistics():
    network, frames = small(), torch.randn(12, 5, dtype=torch.float64)
    linear = network[2]
    expected = adam_by_hand(frames.numpy(), (np.ones(5), np.zeros(5)),
                            linear.weight.detach().numpy(), linear.bias.detach().numpy(), 3,
                            0.01)  # fmt: skip
    onda = Onda(network, OndaConfig.thesis(12, refine_rate=0.01))
    for _ in range(3):
        onda.replay(frames)
    for found, wanted in zip((onda.online.scale, onda.online.bias), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-9)
    torch.testing.assert_close(network[1].weight.data, onda.online.scale)


def test_a_network_that_rejects_is_refined_by_its_classes(tmp_path):
    network = load_model(tiny(tmp_path / "model", rejects=0.5)).model
    before = NormalizationLayers(network).source_affine()
    onda = Onda(network, OndaConfig.thesis(8, refine_rate=0.01))
    onda._refinement.refine = partial(_refine_anyway, onda._refinement)
    onda.replay(torch.randn(8, 3, 32, 32))
    assert (onda.online.scale - before[0]).abs().max() == pytest.approx(0.01, rel=0.01)


def _refine_anyway(refinement, layers, now, logits):
    # An untrained network may take all noise for one class, which would be left out.
    with torch.enable_grad():
        return Refinement.refine(refinement, layers, now, logits * 0.01)


def test_no_step_is_made_while_all_frames_are_of_one_class():
    network = small()
    layers, refinement = NormalizationLayers(network), Refinement(0.1)
    logits = torch.zeros(6, 4, dtype=torch.float64, requires_grad=True) * network[1].weight.sum()
    one = torch.tensor([9.0, 0, 0, 0], dtype=torch.float64)
    now = layers.read()
    assert refinement.refine(layers, now, logits + one) is now
    assert refinement.skipped == 1


def test_a_reset_takes_back_what_was_refined(network, shifted_frames):
    given = network[1].weight.detach().clone()
    onda = Onda(network, OndaConfig.thesis(4, refine_rate=0.05))
    onda.replay(torch.stack(shifted_frames(8)))
    refined = network[1].weight.detach().clone()
    assert not torch.equal(refined, given)
    onda.reset()
    assert onda.online.scale is None
    assert torch.equal(network[1].weight, given)


def test_a_damaged_state_is_refused(network, tmp_path):
    onda = Onda(network)
    onda.start_from(replace(domain_of(network)), "hall")
    onda._online = replace(onda._online, scale=onda._online.scale / 0)
    onda.save(tmp_path / "state")
    with pytest.raises(CheckpointError, match="damaged"):
        onda.restore(tmp_path / "state")
