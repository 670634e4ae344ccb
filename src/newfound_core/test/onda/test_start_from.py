# SPDX-License-Identifier: Apache-2.0
"""Onda.start_from: begin with statistics that were predicted."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError, DataError
from newfound_core.models import load_model
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.estimators import BatchEstimator
from newfound_core.onda.onnx_folding import OnnxFolding
from newfound_core.onda.statistics import NormalizationLayers, Statistics
from newfound_core.testing import tiny


def other(layers, shift=0.5):
    source = layers.read()
    return Statistics(source.mean + shift, source.variance * 2)


def test_the_given_statistics_serve_and_reset_returns_to_them(network, shifted_frames):
    onda = Onda(network, OndaConfig.thesis(4))
    given = other(NormalizationLayers(network))
    onda.start_from(given, "hall")
    torch.testing.assert_close(NormalizationLayers(network).read().mean, given.mean)
    assert onda.status().start == "hall"
    assert onda.drift().mean > 0  # measured from the source
    for frame in shifted_frames(4):
        onda.predict(frame)
    assert not torch.equal(NormalizationLayers(network).read().mean, given.mean)
    onda.reset()
    torch.testing.assert_close(NormalizationLayers(network).read().mean, given.mean)


def test_an_anchor_pulls_towards_them(network, shifted_frames):
    onda = Onda(network, OndaConfig.thesis(4, 1.0, anchor=True, anchor_online_share=0.5))
    given = other(NormalizationLayers(network))
    onda.start_from(given, "hall")
    frames = torch.stack(shifted_frames(4))
    expected = BatchEstimator(NormalizationLayers(network)).estimate([frames], given).statistics
    onda.replay(frames)
    found = NormalizationLayers(network).read().mean
    torch.testing.assert_close(found, (given.mean + expected.mean) / 2, rtol=1e-4, atol=1e-5)


def test_prior_frames_weigh_as_in_a_mean_over_all_frames(network, shifted_frames):
    onda = Onda(network, OndaConfig.thesis(4, 0.01))
    given = other(NormalizationLayers(network))
    onda.start_from(given, "hall", prior_frames=6)
    estimator = BatchEstimator(NormalizationLayers(network))
    frames = torch.stack(shifted_frames(10))
    now, seen = given.mean.double().numpy(), 0
    for chunk in frames.split([2, 4, 4]):  # the first update is of half as many
        onda.replay(chunk)
        seen += len(chunk)
        update = estimator.estimate([chunk], given).statistics.mean.double().numpy()
        now = now + len(chunk) / (6 + seen) * (update - now)
        found = NormalizationLayers(network).read().mean
        np.testing.assert_allclose(found, now, rtol=1e-4, atol=1e-4)
    assert onda.status().updates == 3


def test_each_layer_may_stand_for_frames_of_its_own(network, shifted_frames):
    onda, layers = Onda(network, OndaConfig.thesis(4, 0.01)), NormalizationLayers(network)
    given, frames = other(layers), torch.stack(shifted_frames(2))
    worth = [2.0 + 3 * index for index in range(len(layers.names))]
    onda.start_from(given, "hall", prior_frames=worth)
    update = BatchEstimator(layers).estimate([frames], given).statistics.mean.double().numpy()
    onda.replay(frames)
    share = 2 / (np.array(worth)[layers.row_layer.numpy()] + 2)
    expected = given.mean.double().numpy()
    expected = expected + share * (update - expected)
    np.testing.assert_allclose(layers.read().mean, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(ConfigError, match="one for each of the"):
        onda.start_from(given, "hall", prior_frames=[*worth, 1.0])


def test_frames_gathered_may_be_kept_when_the_prediction_is_refined(network, shifted_frames):
    onda = Onda(network, OndaConfig.thesis(4))
    given, frames = other(NormalizationLayers(network)), shifted_frames(4)
    for number, frame in enumerate(frames):
        onda.start_from(given, "hall", keep_frames=number > 0)
        onda.predict(frame)
    assert onda.status().updates == 1


def test_the_source_does_not_rest_over_a_prediction(network):
    network.source_confidence = 0.5
    onda = Onda(network, OndaConfig(4))
    assert onda.status().resting
    given = other(NormalizationLayers(network))
    onda.start_from(given, "hall")
    assert not onda.status().resting
    torch.testing.assert_close(NormalizationLayers(network).read().mean, given.mean)


@pytest.mark.parametrize("problem", ["short", "nan", "negative"])
def test_statistics_of_another_network_are_refused_and_nothing_changes(network, problem):
    onda = Onda(network, OndaConfig.thesis(4))
    before = onda.source
    mean, variance = before.mean.clone(), before.variance.clone()
    if problem == "short":
        mean, variance = mean[1:], variance[1:]
    elif problem == "nan":
        mean[0] = math.nan
    else:
        variance[0] = -1
    with pytest.raises(DataError, match="finite means and variances"):
        onda.start_from(Statistics(mean, variance), "bad")
    assert torch.equal(NormalizationLayers(network).read().mean, before.mean)
    with pytest.raises(ConfigError, match="prior_frames"):
        onda.start_from(before, "bad", prior_frames=math.inf)


def test_onnx_runtime_serves_them_from_the_next_frame_on(tmp_path):
    network = load_model(tiny(tmp_path / "model")).model
    engine = partial(OnnxFolding, size=32, positions=16, threads=1)
    onda = Onda(network, OndaConfig.thesis(4), inline=False, engine=engine)
    frame = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    before = onda(frame).clone()
    onda.start_from(other(NormalizationLayers(network), 0.05), "hall")
    after = onda(frame)
    assert not torch.allclose(before, after, atol=1e-3)
    with torch.no_grad():
        torch.testing.assert_close(after, network(frame), rtol=1e-4, atol=1e-5)
