# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch
from newfound_core.onda.drift import measure_drift
from newfound_core.onda.layers import NormalizationLayers, Statistics


def test_drift_is_the_symmetric_kl_of_the_gaussians_per_layer(network):
    layers = NormalizationLayers(network)
    source = layers.read()
    torch.manual_seed(0)
    now = Statistics(source.mean + torch.randn(10), source.variance * torch.rand(10))
    drift = measure_drift(layers, source, now)

    def kl(m0, v0, m1, v1):
        return 0.5 * (np.log(v1 / v0) + (v0 + (m0 - m1) ** 2) / v1 - 1)

    m0, m1 = source.mean.double().numpy(), now.mean.double().numpy()
    v0, v1 = source.variance.double().numpy() + 1e-5, now.variance.double().numpy() + 1e-5
    both = kl(m0, v0, m1, v1) + kl(m1, v1, m0, v0)
    expected = [both[:4].mean(), both[4:].mean()]
    assert list(drift.per_layer) == ["1", "7"]
    np.testing.assert_allclose(list(drift.per_layer.values()), expected, rtol=1e-6)
    assert drift.mean == pytest.approx(np.mean(expected))
    assert drift.maximum == pytest.approx(np.max(expected))


def test_nothing_has_drifted_at_the_start(network):
    layers = NormalizationLayers(network)
    assert measure_drift(layers, layers.read(), layers.read()).maximum == pytest.approx(0)


def test_a_dead_channel_gives_a_finite_drift(network):
    layers = NormalizationLayers(network)
    source = layers.read()
    dead = Statistics(source.mean, torch.zeros_like(source.variance))
    assert np.isfinite(measure_drift(layers, dead, source).maximum)
