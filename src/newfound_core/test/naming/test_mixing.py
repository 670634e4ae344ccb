# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError
from newfound_core.naming.mixing import Mixture, curriculum, draw_mixture

DOMAINS = np.repeat([0, 1, 2], 40)


@pytest.mark.parametrize(
    ("epoch", "beta", "alpha"),
    [(0, 0.1, 0), (1, 0.2, 0), (5, 1.0, 0), (9, 1.8, 0), (10, 2.0, 0), (15, 2.0, 0.5),
     (20, 2.0, 1), (29, 2.0, 1)],
)  # fmt: skip
def test_the_curriculum_follows_its_formulas(epoch, beta, alpha):
    assert curriculum(epoch, 10, 2.0) == pytest.approx((beta, alpha))


def test_no_warm_up_is_no_curriculum():
    assert curriculum(0, 0, 0.6) == (0.6, 1.0)


def test_mixing_is_the_equation():
    random = np.random.default_rng(0)
    mixture = draw_mixture(DOMAINS, 0.8, 0.5, random)
    samples = np.random.default_rng(1).normal(size=(120, 3, 2))
    expected = np.empty_like(samples)
    for i in range(120):
        share, j = float(mixture.shares[i]), int(mixture.partners[i])
        expected[i] = share * samples[i] + (1 - share) * samples[j]
    assert np.allclose(mixture(torch.from_numpy(samples)).numpy(), expected, atol=1e-15)


def test_partners_are_of_the_same_domain_before_and_of_others_after():
    for alpha, same in ((0.0, True), (1.0, False)):
        partners = draw_mixture(DOMAINS, 1.0, alpha, np.random.default_rng(2)).partners.numpy()
        assert ((DOMAINS[partners] == DOMAINS) == same).all()
        assert (partners != np.arange(len(DOMAINS))).all()


def test_half_of_the_partners_cross_at_one_half():
    domains = np.repeat([0, 1], 2000)
    partners = draw_mixture(domains, 1.0, 0.5, np.random.default_rng(3)).partners.numpy()
    assert abs((domains[partners] != domains).mean() - 0.5) < 0.05


def test_shares_are_of_the_beta_distribution():
    shares = draw_mixture(np.zeros(4000), 0.5, 0.0, np.random.default_rng(4)).shares.numpy()
    assert abs(shares.mean() - 0.5) < 0.03
    assert abs(shares.var() - 0.125) < 0.01  # 1 / (4 (2 beta + 1))


def test_one_domain_mixes_within_and_one_sample_with_itself():
    partners = draw_mixture(np.zeros(5), 1.0, 1.0, np.random.default_rng(5)).partners
    assert (partners != torch.arange(5)).all()
    alone = draw_mixture(np.array([0, 1]), 1.0, 0.0, np.random.default_rng(6))
    assert alone.partners.tolist() == [0, 1]


def test_the_same_generator_draws_the_same():
    first, second = (draw_mixture(DOMAINS, 0.3, 0.7, np.random.default_rng(7)) for _ in range(2))
    assert torch.equal(first.shares, second.shares)
    assert torch.equal(first.partners, second.partners)


def test_plain_samples_stay_plain():
    samples = torch.randn(4, 3)
    mixture = Mixture(torch.tensor([1, 0, 3, 2]), torch.tensor([1.0, 1.0, 0.0, 0.0]))
    assert torch.equal(mixture(samples), samples[[0, 1, 3, 2]])


def test_beta_must_be_positive():
    with pytest.raises(ConfigError):
        draw_mixture(DOMAINS, 0.0, 0.5, np.random.default_rng())
