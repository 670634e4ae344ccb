# SPDX-License-Identifier: Apache-2.0

import copy
import threading

import pytest
import timm
import torch
from torch import nn

from newfound_core.conversion import DomainMixture, convert_batchnorm, fold_assignment
from newfound_core.errors import BackboneError, DataError
from newfound_core.normalization import (
    AssignmentContext,
    DomainBatchNorm,
    DomainBatchNorm1d,
    DomainBatchNorm2d,
    DomainBatchNormAct2d,
)


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


class Network(nn.Module):
    """Layers of every kind: shared gamma, gamma of each domain, none, and one domain only."""

    def __init__(self):
        super().__init__()
        self.assignment = AssignmentContext()
        self.layers = nn.Sequential(
            DomainBatchNorm2d(3, 2, self.assignment),
            nn.Conv2d(3, 5, 3),
            DomainBatchNorm2d(5, 2, self.assignment, affine="domain"),
            nn.Flatten(),
            DomainBatchNorm1d(20, 2, self.assignment, affine="none"),
            DomainBatchNorm1d(20, 1, self.assignment),
        )
        self.mixture = DomainMixture(self)

    def forward(self, x, weights):
        with self.assignment.use(weights, self.mixture.of(weights[0])):
            return self.layers(x)

    def one_by_one(self, x, weights):
        with self.assignment.use(weights):
            return self.layers(x)


@pytest.fixture
def network():
    torch.manual_seed(3)
    network = Network().eval()
    for layer in network.mixture._layers:
        layer.running_mean.normal_()
        layer.running_var.uniform_(0.5, 2)
        if layer.weight is not None:
            nn.init.normal_(layer.weight)
            nn.init.normal_(layer.bias)
    return network


X, WEIGHTS = torch.randn(1, 3, 4, 4), torch.tensor([[0.3, 0.7]])


def test_all_layers_together_are_the_layers_one_by_one(network):
    with torch.no_grad():
        torch.testing.assert_close(network(X, WEIGHTS), network.one_by_one(X, WEIGHTS))
        network.double()
        x, weights = X.double(), WEIGHTS.double()
        torch.testing.assert_close(network(x, weights), network.one_by_one(x, weights))


def test_layers_in_training_and_in_another_precision_ignore_it(network):
    half = X.bfloat16()
    first = network.layers[0]
    with torch.no_grad(), network.assignment.use(WEIGHTS, network.mixture.of(WEIGHTS[0])):
        assert first(half).dtype == torch.bfloat16
        before = first.running_mean.clone()
        first.train()(X)
    assert not torch.equal(first.running_mean, before)
    assert network.assignment.mixed == {}


@torch.no_grad()
def test_autocast_does_not_mix_in_half_precision(network):
    network.layers[0].running_var.fill_(1e-7)
    expected = network.mixture.of(WEIGHTS[0])
    network.mixture._table = None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = network.mixture.of(WEIGHTS[0])
    for layer, affine in expected.items():
        for a, b in zip(found[layer], affine, strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("change", ["in place", "replaced", "loaded", "gamma", "trained"])
@torch.no_grad()
def test_every_change_of_statistics_and_parameters_is_noticed(network, change):
    layer = network.layers[0]
    other = copy.deepcopy(layer)
    other.running_mean += 1
    before = network(X, WEIGHTS)
    if change == "in place":
        layer.running_mean.add_(1)
    elif change == "gamma":
        layer.weight.mul_(2)
    elif change == "replaced":
        layer.running_mean = layer.running_mean + 1
    elif change == "loaded":
        layer.load_state_dict(other.state_dict())
    else:
        network.train().one_by_one(torch.randn(4, 3, 4, 4), torch.rand(4, 2).softmax(1))
        network.eval()
    after = network(X, WEIGHTS)
    torch.testing.assert_close(after, network.one_by_one(X, WEIGHTS))
    assert not torch.allclose(after, before)


def test_statistics_made_in_inference_mode_are_read_every_time(network):
    layer = network.layers[0]
    with torch.inference_mode():
        layer.running_mean = layer.running_mean + 1
        network(X, WEIGHTS)
        layer.running_mean.add_(1)
        torch.testing.assert_close(network(X, WEIGHTS), network.one_by_one(X, WEIGHTS))


@torch.no_grad()
def test_a_copy_mixes_its_own_layers(network):
    expected = network(X, WEIGHTS)
    copied = copy.deepcopy(network)
    copied.layers[0].running_mean.add_(1)
    torch.testing.assert_close(copied(X, WEIGHTS), copied.one_by_one(X, WEIGHTS))
    torch.testing.assert_close(network(X, WEIGHTS), expected)


def test_two_threads_serve_from_one_network_with_their_own_mixtures(network):
    rows = [torch.tensor([[1.0, 0]]), torch.tensor([[0, 1.0]])]
    with torch.no_grad():
        expected = [network(X, row) for row in rows]
    barrier, wrong = threading.Barrier(2), []

    @torch.no_grad()
    def work(index):
        for _ in range(200):
            barrier.wait()
            if not torch.equal(network(X, rows[index]), expected[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
