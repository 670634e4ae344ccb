# SPDX-License-Identifier: Apache-2.0

import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from newfound_core.conversion import convert_batchnorm
from newfound_core.errors import BackboneError, CheckpointError
from newfound_core.normalization import AssignmentContext
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.statistics import NormalizationLayers, Statistics, measure_drift


def test_what_is_read_can_be_written_back(network):
    layers = NormalizationLayers(network)
    before = layers.read()
    layers.write(Statistics(before.mean + 1, before.variance * 2))
    torch.testing.assert_close(network[1].running_mean, before.mean[:4] + 1)
    torch.testing.assert_close(network[7].running_var, before.variance[4:] * 2)


def test_reading_is_a_copy(network):
    layers = NormalizationLayers(network)
    before = layers.read()
    network[1].running_mean.add_(1)
    assert not torch.equal(before.mean, layers.read().mean)


def test_rows_of_a_converted_network_are_layer_by_layer_domain_by_domain(network):
    layers = NormalizationLayers(convert_batchnorm(network, 2, AssignmentContext()))
    assert layers.row_layer.tolist() == [0] * 8 + [1] * 12
    assert layers.row_group.tolist() == [0] * 4 + [1] * 4 + [2] * 6 + [3] * 6
    assert layers.row_channel.tolist() == [*range(4)] * 2 + [*range(4, 10)] * 2


def test_a_network_without_batch_normalisation_cannot_be_adapted():
    with pytest.raises(BackboneError, match="nothing to adapt"):
        NormalizationLayers(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)))


def test_the_fingerprint_knows_parameters_and_source_statistics(make_network):
    first, same, other = (NormalizationLayers(make_network(seed)) for seed in (0, 0, 1))
    source = first.read()
    assert first.fingerprint(source) == same.fingerprint(source)
    assert first.fingerprint(source) != other.fingerprint(source)
    shifted = Statistics(source.mean + 1, source.variance)
    assert first.fingerprint(source) != first.fingerprint(shifted)


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


def test_the_distance_of_means_is_bounded_and_over_adapting_layers(network):
    layers = NormalizationLayers(network, "last:1")
    statistics, generator = layers.read(), torch.Generator().manual_seed(0)
    mean = statistics.mean + torch.randn(10, generator=generator)
    mean[:4] = 1e6  # of a layer that does not adapt
    d2 = (mean.double() - statistics.mean.double()).numpy()[4:] ** 2
    expected = np.mean(d2 / (statistics.variance.double().numpy()[4:] + d2))
    assert layers.distance(statistics, mean) == pytest.approx(expected, rel=1e-5)
    assert layers.distance(statistics, statistics.mean) == 0
    dead = Statistics(statistics.mean, torch.zeros_like(statistics.variance))
    assert layers.distance(dead, statistics.mean) == 0
    assert layers.distance(dead, mean) == pytest.approx(1)


def test_a_dead_channel_gives_a_finite_drift(network):
    layers = NormalizationLayers(network)
    source = layers.read()
    dead = Statistics(source.mean, torch.zeros_like(source.variance))
    assert np.isfinite(measure_drift(layers, dead, source).maximum)


CONFIG = OndaConfig.thesis(frames_per_update=2, estimator="streaming")


@pytest.fixture
def saved(network, shifted_frames, tmp_path):
    onda = Onda(network, CONFIG)
    for frame in shifted_frames(8):
        onda.predict(frame)
    path = tmp_path / "adapted.safetensors"
    onda.save(path)
    return onda, path


def test_a_restored_adapter_goes_on_where_the_saved_one_was(saved, make_network, shifted_frames):
    onda, path = saved
    other = Onda(make_network(), CONFIG)
    other.restore(path)
    frame = shifted_frames(1, seed=5)[0]
    assert torch.equal(onda.predict(frame), other.predict(frame))
    assert other.status().updates == onda.status().updates == 4
    other.reset()
    assert other.drift().maximum == pytest.approx(0)


def test_a_state_of_another_network_is_refused(saved, make_network):
    _, path = saved
    with pytest.raises(CheckpointError, match="another network"):
        Onda(make_network(seed=1), CONFIG).restore(path)


def test_a_state_of_other_adapting_layers_is_refused(saved, make_network):
    _, path = saved
    other = Onda(make_network(), OndaConfig.thesis(estimator="streaming", layers="last:1"))
    with pytest.raises(CheckpointError, match="layers last:2 adapting, now it is last:1"):
        other.restore(path)


def write_garbage(path):
    path.write_bytes(b"garbage")


def truncate(path):
    path.write_bytes(path.read_bytes()[:-40])


def write_pickle(path):
    path.write_bytes(pickle.dumps({"mean": [1.0]}))


def write_unrelated_tensors(path):
    save_file({"weight": torch.zeros(3)}, path)


@pytest.mark.parametrize(
    "damage", [write_garbage, truncate, write_pickle, write_unrelated_tensors]
)
def test_a_damaged_file_is_a_clear_error_and_changes_nothing(saved, damage):
    onda, path = saved
    before = onda.network.state_dict()["1.running_mean"].clone()
    damage(path)
    with pytest.raises(CheckpointError, match="adapted"):
        onda.restore(path)
    assert torch.equal(onda.network.state_dict()["1.running_mean"], before)


def test_a_missing_file_is_a_clear_error(saved, tmp_path):
    onda, _ = saved
    with pytest.raises(CheckpointError, match="cannot be read"):
        onda.restore(tmp_path / "nowhere.safetensors")


@pytest.mark.parametrize("value", [float("nan"), -1.0])
def test_impossible_statistics_are_refused(saved, value):
    onda, path = saved
    from safetensors import safe_open
    from safetensors.torch import load_file

    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    tensors["variance"][0] = value
    save_file(tensors, path, metadata)
    with pytest.raises(CheckpointError, match="damaged"):
        onda.restore(path)


def test_saving_leaves_no_other_file_behind(saved):
    _, path = saved
    assert [p.name for p in path.parent.iterdir()] == [path.name]
