# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from newfound_core.assignment import AssignmentContext
from newfound_core.conversion import convert_batchnorm
from newfound_core.errors import BackboneError
from newfound_core.onda.layers import NormalizationLayers, Statistics
from torch import nn


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
