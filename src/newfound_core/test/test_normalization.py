# SPDX-License-Identifier: Apache-2.0

import copy
import threading

import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.errors import ConfigError, DataError
from newfound_core.normalization import (
    AssignmentContext,
    DomainBatchNorm1d,
    DomainBatchNorm2d,
    weighted_statistics,
)


def test_weights_hold_inside_the_block_only_and_nest():
    context = AssignmentContext()
    outer, inner = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    with context.use(outer):
        with context.use(inner):
            assert context.weights is inner
        assert context.weights is outer
    assert context.weights is None


def test_weights_are_withdrawn_when_the_forward_pass_fails():
    context = AssignmentContext()
    with pytest.raises(RuntimeError), context.use(torch.ones(1)):
        raise RuntimeError
    assert context.weights is None


def test_another_thread_does_not_see_the_weights():
    context = AssignmentContext()
    seen = []
    with context.use(torch.ones(2)):
        thread = threading.Thread(target=lambda: seen.append(context.weights))
        thread.start()
        thread.join()
    assert seen == [None]


def test_a_copied_model_gets_one_context_of_its_own():
    context = AssignmentContext()
    first, second = copy.deepcopy([context, context])
    assert first is second
    assert first is not context


def test_a_missing_assignment_says_what_to_do():
    with pytest.raises(DataError, match=r"with assignment\.use"):
        AssignmentContext().required(images=4, domains=2)


@pytest.mark.parametrize("shape", [(3, 2), (4, 3), (3,)])
def test_an_assignment_of_the_wrong_shape_is_named(shape):
    context = AssignmentContext()
    with context.use(torch.ones(shape)), pytest.raises(DataError, match=r"expected \[4, 2\]"):
        context.required(images=4, domains=2)


def test_labels_are_refused_as_an_assignment():
    with (
        pytest.raises(DataError, match="float tensor"),
        AssignmentContext().use(torch.tensor([0, 1])),
    ):
        pass


EPS = 1e-5


def soft_weights(images, domains, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(images, domains, generator=generator, dtype=torch.float64).softmax(1)


def numpy_statistics(x, w):
    """mu_d and sigma^2_d, one value at a time; x [N, C, P], w [N, k]."""
    images, channels, positions = x.shape
    mean = np.zeros((w.shape[1], channels))
    variance = np.zeros_like(mean)
    for d in range(w.shape[1]):
        mass = sum(w[i, d] * positions for i in range(images))
        for c in range(channels):
            mean[d, c] = sum(w[i, d] * x[i, c].sum() for i in range(images)) / mass
            deviations = ((x[:, c] - mean[d, c]) ** 2).sum(1)
            variance[d, c] = (w[:, d] * deviations).sum() / mass
    return mean, variance


def numpy_normalize(x, w, mean, variance, gamma, beta):
    y = np.zeros_like(x)
    for d in range(w.shape[1]):
        hat = (x - mean[d][:, None]) / np.sqrt(variance[d][:, None] + EPS)
        y += w[:, d, None, None] * hat
    return gamma[:, None] * y + beta[:, None]


def layer_with_random_state(domains, features=3, affine="shared", kind=DomainBatchNorm2d):
    torch.manual_seed(1)
    layer = kind(features, domains, affine=affine).double()
    with torch.no_grad():
        layer.running_mean.normal_()
        layer.running_var.uniform_(0.5, 2)
        if layer.weight is not None:
            layer.weight.normal_()
            layer.bias.normal_()
    return layer


def test_training_normalises_by_the_weighted_statistics_of_each_domain():
    layer = layer_with_random_state(domains=3)
    x, w = torch.randn(6, 3, 4, 5, dtype=torch.float64), soft_weights(6, 3)
    with layer.assignment.use(w):
        y = layer(x)
    flat = x.flatten(2).numpy()
    mean, variance = numpy_statistics(flat, w.numpy())
    gamma, beta = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    expected = numpy_normalize(flat, w.numpy(), mean, variance, gamma, beta)
    np.testing.assert_allclose(y.detach().flatten(2).numpy(), expected, rtol=1e-10, atol=1e-10)


def test_running_statistics_follow_with_the_unbiased_variance_of_hard_domains():
    layer = layer_with_random_state(domains=2)
    before_mean, before_var = layer.running_mean.clone(), layer.running_var.clone()
    x = torch.randn(5, 3, 2, 2, dtype=torch.float64)
    w = torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1], [0, 1]], dtype=torch.float64)
    with layer.assignment.use(w):
        layer(x)
    for domain, members in enumerate([x[:2], x[2:]]):
        values = members.transpose(0, 1).flatten(1).numpy()  # n = 2 * 4 and 3 * 4
        mean = 0.9 * before_mean[domain].numpy() + 0.1 * values.mean(1)
        var = 0.9 * before_var[domain].numpy() + 0.1 * values.var(1, ddof=1)
        np.testing.assert_allclose(layer.running_mean[domain], mean, rtol=1e-12)
        np.testing.assert_allclose(layer.running_var[domain], var, rtol=1e-12)


def test_the_soft_variance_is_unbiased_by_the_effective_number_of_values():
    # For fixed weights, E[sum_i a_i (x_i - m)^2] = (1 - sum a_i^2) sigma^2 with a = w / sum w.
    w = soft_weights(4, 2)
    statistics = weighted_statistics(torch.randn(4, 1, dtype=torch.float64), w)
    a = (w / w.sum(0)).numpy()
    n = statistics.values.numpy()
    np.testing.assert_allclose((n - 1) / n, 1 - (a**2).sum(0), rtol=1e-12)


@pytest.mark.parametrize("affine", ["shared", "domain", "none"])
@pytest.mark.parametrize("images", [1, 4])
def test_evaluation_mixes_the_running_statistics(affine, images):
    layer = layer_with_random_state(domains=3, affine=affine).eval()
    x, w = torch.randn(images, 3, 4, 5, dtype=torch.float64), soft_weights(images, 3)
    with layer.assignment.use(w):
        with_grad = layer(x).detach()
        with torch.no_grad():
            without_grad = layer(x)
    ones, zeros = np.ones((3, 3)), np.zeros((3, 3))
    gamma = ones * (1 if affine == "none" else layer.weight.detach().numpy())
    beta = zeros + (0 if affine == "none" else layer.bias.detach().numpy())
    expected = np.zeros((images, 3, 20))
    for d in range(3):
        mean, std = layer.running_mean[d].numpy(), np.sqrt(layer.running_var[d].numpy() + EPS)
        hat = (x.flatten(2).numpy() - mean[:, None]) / std[:, None]
        expected += w.numpy()[:, d, None, None] * (gamma[d][:, None] * hat + beta[d][:, None])
    for y in (with_grad, without_grad):
        np.testing.assert_allclose(y.flatten(2).numpy(), expected, rtol=1e-10, atol=1e-10)


def test_one_assignment_for_the_whole_batch_equals_the_same_row_for_every_image():
    layer = layer_with_random_state(domains=2).eval()
    x, row = torch.randn(4, 3, 2, 2, dtype=torch.float64), soft_weights(1, 2)[0]
    with torch.no_grad():
        with layer.assignment.use(row):
            shared = layer(x)
        with layer.assignment.use(row.expand(4, 2)):
            torch.testing.assert_close(shared, layer(x))


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_one_domain_equals_batchnorm_to_the_last_bit(mode):
    torch.manual_seed(0)
    ours, plain = DomainBatchNorm2d(8, 1), nn.BatchNorm2d(8)
    with torch.no_grad():
        for layer in (ours, plain):
            layer.weight.copy_(torch.linspace(0.5, 2, 8))
            layer.bias.copy_(torch.linspace(-1, 1, 8))
    for layer in (ours, plain):
        layer.train(mode == "train")
    x = torch.randn(5, 8, 7, 7) * 3 + 2
    for _ in range(3):
        assert torch.equal(ours(x), plain(x))
    assert torch.equal(ours.running_mean[0], plain.running_mean)
    assert torch.equal(ours.running_var[0], plain.running_var)


def test_the_general_formula_with_equal_domains_equals_batchnorm():
    torch.manual_seed(0)
    ours, plain = DomainBatchNorm2d(8, 2), nn.BatchNorm2d(8)
    x = torch.randn(5, 8, 7, 7) * 3 + 2
    with ours.assignment.use(torch.full((5, 2), 0.5)):
        torch.testing.assert_close(ours(x), plain(x), rtol=1e-5, atol=1e-5)
    for domain in range(2):
        torch.testing.assert_close(ours.running_mean[domain], plain.running_mean)
        torch.testing.assert_close(ours.running_var[domain], plain.running_var)


@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 5)])
def test_the_1d_layer_takes_vectors_and_sequences(shape):
    layer = DomainBatchNorm1d(3, 2).double()
    x, w = torch.randn(shape, dtype=torch.float64), soft_weights(6, 2)
    with layer.assignment.use(w):
        y = layer(x)
    flat = x.reshape(6, 3, -1).numpy()
    mean, variance = numpy_statistics(flat, w.numpy())
    expected = numpy_normalize(flat, w.numpy(), mean, variance, np.ones(3), np.zeros(3))
    np.testing.assert_allclose(y.detach().reshape(6, 3, -1), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("affine", ["shared", "domain"])
def test_gradients_flow_through_input_statistics_and_assignment(mode, affine):
    layer = layer_with_random_state(domains=2, features=2, affine=affine)
    layer.train(mode == "train")
    layer.momentum = 0.0  # running statistics must not move between evaluations
    x = torch.randn(3, 2, 2, 2, dtype=torch.float64, requires_grad=True)
    w = soft_weights(3, 2).requires_grad_()

    def run(x, w, gamma, beta):
        with layer.assignment.use(w):
            parameters = {"weight": gamma, "bias": beta}
            return torch.func.functional_call(layer, parameters, x)

    assert torch.autograd.gradcheck(run, (x, w, layer.weight, layer.bias))


def test_gradients_equal_the_closed_form_of_the_thesis():
    torch.manual_seed(0)
    layer = DomainBatchNorm2d(2, 3, affine="none").double()
    x = torch.randn(4, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    w = soft_weights(4, 3).requires_grad_()
    upstream = torch.randn_like(x)
    with layer.assignment.use(w):
        layer(x).backward(upstream)

    values, weights, g = (t.detach().flatten(2).numpy() for t in (x, w[..., None], upstream))
    weights = weights[..., 0]
    mean, variance = numpy_statistics(values, weights)
    grad_x, grad_w = np.zeros_like(values), np.zeros_like(weights)
    for d in range(3):
        share = weights[:, d] / (weights[:, d].sum() * values.shape[2])  # w hat
        std = np.sqrt(variance[d] + EPS)[:, None]
        hat = (values - mean[d][:, None]) / std
        a = np.einsum("n,ncp->c", share, g)[:, None]
        b = np.einsum("n,ncp->c", share, hat * g)[:, None]
        grad_x += weights[:, d, None, None] / std * (g - a - hat * b)
        ratio = (variance[d] / (variance[d] + EPS))[:, None]
        grad_w[:, d] = (hat * (g - a) - 0.5 * (hat**2 - ratio) * b).sum((1, 2))
    np.testing.assert_allclose(x.grad.flatten(2), grad_x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(w.grad, grad_w, rtol=1e-9, atol=1e-12)


def test_a_domain_absent_from_the_batch_keeps_its_statistics_and_makes_no_nan():
    layer = DomainBatchNorm2d(3, 3)
    x = torch.randn(4, 3, 5, 5, requires_grad=True)
    w = nn.functional.one_hot(torch.tensor([0, 0, 1, 1]), 3).float().requires_grad_()
    with layer.assignment.use(w):
        y = layer(x)
    y.sum().backward()
    assert torch.equal(layer.running_mean[2], torch.zeros(3))
    assert torch.equal(layer.running_var[2], torch.ones(3))
    assert not torch.equal(layer.running_mean[0], torch.zeros(3))
    for tensor in (y, x.grad, w.grad, layer.weight.grad):
        assert tensor.isfinite().all()


def test_a_domain_with_a_sliver_of_mass_gives_a_positive_finite_variance():
    layer = DomainBatchNorm1d(3, 2)
    w = torch.tensor([[1 - 1e-4, 1e-4]] * 6)
    with layer.assignment.use(w):
        y = layer(torch.randn(6, 3))
    assert y.isfinite().all()
    assert (layer.running_var > 0).all()
    # Its values are as many as those of the other domain, only lighter.
    torch.testing.assert_close(layer.running_var[0], layer.running_var[1], rtol=1e-3, atol=0)


def test_a_domain_with_a_single_value_has_no_variance_to_learn():
    layer = DomainBatchNorm1d(3, 2)
    w = torch.tensor([[1.0, 0], [1, 0], [0, 1]])
    with layer.assignment.use(w):
        y = layer(torch.randn(3, 3))
    assert y.isfinite().all()
    assert torch.equal(layer.running_var[1], torch.ones(3))


def test_a_non_finite_batch_does_not_enter_the_running_statistics():
    layer = DomainBatchNorm2d(3, 2)
    x = torch.randn(4, 3, 2, 2)
    x[1, 0, 0, 0] = float("nan")
    with layer.assignment.use(torch.full((4, 2), 0.5)):
        layer(x)
    assert layer.running_mean.isfinite().all()
    assert layer.running_var.isfinite().all()
    assert torch.equal(layer.running_mean[:, 0], torch.zeros(2))


def test_two_threads_run_one_model_with_their_own_assignments():
    layer = layer_with_random_state(domains=2).eval()
    x = torch.randn(1, 3, 8, 8, dtype=torch.float64)
    rows = [torch.tensor([[1.0, 0]]).double(), torch.tensor([[0, 1.0]]).double()]
    expected, wrong = [], []
    for row in rows:
        with torch.no_grad(), layer.assignment.use(row):
            expected.append(layer(x))
    barrier = threading.Barrier(2)

    def work(index):
        with torch.no_grad(), layer.assignment.use(rows[index]):
            for _ in range(200):
                barrier.wait()
                if not torch.equal(layer(x), expected[index]):
                    wrong.append(index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_half_precision_input_is_normalised_by_single_precision_statistics():
    layer = DomainBatchNorm2d(3, 2)
    x = torch.randn(4, 3, 8, 8) * 5 + 100
    with layer.assignment.use(torch.full((4, 2), 0.5)):
        y = layer(x.bfloat16())
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(layer.running_mean[0], 0.1 * x.mean((0, 2, 3)), rtol=1e-2, atol=0)


def test_wrong_input_and_wrong_options_are_named():
    with pytest.raises(DataError, match="3 channels"):
        DomainBatchNorm2d(3, 1)(torch.zeros(2, 4, 5, 5))
    with pytest.raises(DataError, match="expects a tensor"):
        DomainBatchNorm2d(3, 1)(torch.zeros(2, 3))
    with pytest.raises(DataError, match="no domain assignment"):
        DomainBatchNorm2d(3, 2)(torch.zeros(2, 3, 5, 5))
    with pytest.raises(ConfigError, match="affine"):
        DomainBatchNorm2d(3, 2, affine="yes")
    with pytest.raises(ConfigError, match="at least 1"):
        DomainBatchNorm2d(3, 0)


def test_the_layer_exports_with_an_assignment_as_input():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.assignment = AssignmentContext()
            self.norm = DomainBatchNorm2d(3, 2, self.assignment)

        def forward(self, x, w):
            with self.assignment.use(w):
                return self.norm(x)

    model = Model().eval()
    x, w = torch.randn(1, 3, 4, 4), torch.tensor([[0.3, 0.7]])
    with torch.no_grad():
        exported = torch.export.export(model, (x, w)).module()
        torch.testing.assert_close(exported(x, w), model(x, w))
