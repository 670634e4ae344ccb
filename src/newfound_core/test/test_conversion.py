# SPDX-License-Identifier: Apache-2.0
import copy

import pytest
import timm
import torch
from newfound_core.assignment import AssignmentContext
from newfound_core.conversion import convert_batchnorm, fold_assignment
from newfound_core.errors import BackboneError, DataError
from newfound_core.normalization import DomainBatchNorm, DomainBatchNormAct2d
from torch import nn


def small_network():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5),
        nn.BatchNorm1d(5),
    )  # fmt: skip
    network(torch.randn(8, 3, 8, 8) * 2 + 1)
    return network.eval()


@pytest.mark.parametrize("domains", [1, 2, 8])
def test_a_converted_network_computes_what_it_did_for_any_assignment(domains):
    network = small_network()
    x = torch.randn(3, 3, 8, 8)
    expected = network(x)
    context = AssignmentContext()
    converted = convert_batchnorm(network, domains, context)
    assert converted is network
    with context.use(torch.rand(3, domains).softmax(1)):
        torch.testing.assert_close(converted(x), expected)


def test_timms_fused_layer_keeps_its_activation_and_names():
    network = timm.create_model("efficientnet_lite0", num_classes=3).eval()
    x = torch.randn(2, 3, 64, 64)
    expected, names = network(x), set(network.state_dict())
    context = AssignmentContext()
    convert_batchnorm(network, 2, context)
    assert any(isinstance(m, DomainBatchNormAct2d) for m in network.modules())
    assert not any(isinstance(m, nn.BatchNorm2d) for m in network.modules())
    kept = {name for name in names if not name.endswith("num_batches_tracked")}
    assert set(network.state_dict()) == kept
    with context.use(torch.tensor([0.2, 0.8])):
        torch.testing.assert_close(network(x), expected, rtol=1e-4, atol=1e-4)


def test_a_layer_used_twice_stays_one_layer():
    norm = nn.BatchNorm2d(3)
    network = convert_batchnorm(nn.Sequential(norm, norm), 2)
    assert network[0] is network[1]
    assert isinstance(network[0], DomainBatchNorm)


def test_gamma_and_beta_stay_the_same_parameters():
    network = small_network()
    gamma = network[1].weight
    assert convert_batchnorm(network, 2)[1].weight is gamma


def test_a_copy_of_a_converted_network_has_its_own_assignment():
    context = AssignmentContext()
    network = convert_batchnorm(small_network(), 2, context)
    twin = copy.deepcopy(network)
    assert twin[1].assignment is twin[5].assignment
    with context.use(torch.ones(2) / 2), pytest.raises(DataError, match="no domain assignment"):
        twin(torch.randn(1, 3, 8, 8))


@pytest.mark.parametrize("affine", ["shared", "domain", "none"])
def test_folding_equals_the_mixture(affine):
    from newfound_core.normalization import DomainBatchNorm2d

    context = AssignmentContext()
    network = nn.Sequential(nn.Conv2d(3, 4, 3), DomainBatchNorm2d(4, 3, context, affine=affine))
    with torch.no_grad():
        network[1].running_mean.normal_()
        network[1].running_var.uniform_(0.1, 3)
        if affine != "none":
            network[1].weight.normal_()
    network.eval()
    x, weights = torch.randn(2, 3, 8, 8), torch.tensor([0.1, 0.6, 0.3])
    folded = fold_assignment(network, weights)
    assert type(folded[1]) is nn.BatchNorm2d
    assert isinstance(network[1], DomainBatchNorm)
    with context.use(weights):
        torch.testing.assert_close(folded(x), network(x), rtol=1e-4, atol=1e-5)


def test_folding_one_domain_gives_its_statistics_back():
    network = small_network()
    expected = copy.deepcopy(network.state_dict())
    folded = fold_assignment(convert_batchnorm(network, 3), torch.tensor([0.0, 1.0, 0.0]))
    for name in ("1.running_mean", "1.running_var", "1.weight", "5.running_var"):
        torch.testing.assert_close(folded.state_dict()[name], expected[name])


def test_folding_with_the_wrong_number_of_weights_is_an_error():
    network = convert_batchnorm(small_network(), 3)
    with pytest.raises(DataError, match="3 domains"):
        fold_assignment(network, torch.ones(2) / 2)


def test_a_layer_without_statistics_cannot_be_converted():
    with pytest.raises(BackboneError, match="track_running_stats"):
        convert_batchnorm(nn.BatchNorm2d(3, track_running_stats=False), 2)
