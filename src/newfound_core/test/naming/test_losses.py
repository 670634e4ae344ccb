# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.errors import ConfigError
from newfound_core.naming.losses import MixingConfig, cumix_loss, soft_cross_entropy
from newfound_core.naming.mixing import draw_mixture

RANDOM = np.random.default_rng(0)
F, G, V = RANDOM.normal(size=(7, 5)), RANDOM.normal(size=(4, 7)), RANDOM.normal(size=(3, 4))
X, Y, D = RANDOM.normal(size=(12, 5)), RANDOM.integers(0, 3, 12), np.repeat([0, 1], 6)


def log_softmax(scores):
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def expected(config, epoch):
    """The three terms, sample by sample in double precision."""
    generator, hot = np.random.default_rng(5), np.eye(3)[Y]
    features = np.tanh(X @ F.T)

    def mixed(values, mixture):
        return np.stack([
            float(mixture.shares[i]) * values[i]
            + (1 - float(mixture.shares[i])) * values[int(mixture.partners[i])]
            for i in range(len(values))
        ])  # fmt: skip

    def loss(f, labels):
        return -np.mean((labels * log_softmax(f @ G.T @ V.T)).sum(axis=1))

    beta, alpha = config.at(epoch)
    first = draw_mixture(D, beta, alpha, generator)
    second = draw_mixture(D, beta, alpha, generator)
    return (
        loss(features, hot),
        loss(mixed(features, first), mixed(hot, first)),
        loss(np.tanh(mixed(X, second) @ F.T), mixed(hot, second)),
    )


def terms(config, epoch, network=None):
    linear = nn.Linear(5, 7, bias=False).double()
    linear.weight.data = torch.from_numpy(F)
    network = network or nn.Sequential(linear, nn.Tanh())
    head = torch.from_numpy(V @ G)
    return cumix_loss(
        network,
        lambda f: f @ head.T,
        torch.from_numpy(X),
        torch.from_numpy(Y),
        domains=D,
        config=config,
        epoch=epoch,
        generator=np.random.default_rng(5),
    )


@pytest.mark.parametrize("epoch", [0, 3, 5, 9])
def test_the_terms_are_those_of_the_thesis(epoch):
    config = MixingConfig(feature_mix=2.0, image_mix=0.5, strength=0.8, warm_up=4)
    found = terms(config, epoch)
    plain, features, images = expected(config, epoch)
    assert found.plain.item() == pytest.approx(plain, abs=1e-12)
    assert found.mixed_features.item() == pytest.approx(features, abs=1e-12)
    assert found.mixed_images.item() == pytest.approx(images, abs=1e-12)
    assert found.total.item() == pytest.approx(plain + 2 * features + 0.5 * images, abs=1e-12)


def test_gradients_reach_the_features_of_the_partners():
    x = torch.from_numpy(X).requires_grad_()
    cumix_loss(
        nn.Identity(), lambda f: f[:, :3], x, torch.from_numpy(Y), domains=D,
        config=MixingConfig(feature_mix=1.0), epoch=9, generator=np.random.default_rng(0),
    ).mixed_features.backward()  # fmt: skip
    assert (x.grad.abs().sum(1) > 0).all()


def test_without_mixing_it_is_cross_entropy():
    found = terms(MixingConfig(feature_mix=0.0), 3)
    assert found.total.equal(found.plain)
    assert found.mixed_share == 0


def test_within_domains_only():
    assert MixingConfig(across_domains=False, warm_up=0).at(9) == (1.0, 0.0)


def test_mixed_images_do_not_move_running_statistics():
    network = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 4)).double().train()
    alone = nn.BatchNorm1d(5).double().train()
    alone(torch.from_numpy(X))
    terms_of = cumix_loss(
        network, lambda f: f[:, :3], torch.from_numpy(X), torch.from_numpy(Y), domains=D,
        config=MixingConfig(image_mix=1.0), epoch=9, generator=np.random.default_rng(0),
    )  # fmt: skip
    assert torch.isfinite(terms_of.total)
    assert torch.equal(network[0].running_mean, alone.running_mean)
    assert torch.equal(network[0].running_var, alone.running_var)
    assert network[0].momentum == 0.1
    assert int(network[0].num_batches_tracked) == 1


def test_a_soft_label_of_zeros_and_large_scores_stays_finite():
    scores = torch.tensor([[1e4, -1e4]])
    assert torch.isfinite(soft_cross_entropy(scores, torch.tensor([[1.0, 0.0]])))


@pytest.mark.parametrize("wrong", [{"feature_mix": -1}, {"strength": 0}, {"warm_up": -1}])
def test_values_without_meaning_are_refused(wrong):
    with pytest.raises(ConfigError):
        MixingConfig(**wrong)
