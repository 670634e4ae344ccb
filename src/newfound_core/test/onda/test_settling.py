# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.errors import ConfigError
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.estimate import Estimate
from newfound_core.onda.layers import Statistics
from newfound_core.onda.settling import Settling, difference

FALLING = OndaConfig(momentum=0.1, settled_momentum=0.02)


def statistics(mean, variance=1.0, rows=4):
    return Statistics(torch.full((rows,), float(mean)), torch.full((rows,), float(variance)))


def momenta(settling, config, differences):
    return [
        settling.momentum(config, statistics(0), Estimate(statistics(d), torch.ones(4)))
        for d in differences
    ]


def test_without_a_settled_momentum_it_stays():
    assert momenta(Settling(), OndaConfig(momentum=0.3), [1.0, 5.0, 0.1]) == [0.3] * 3


def test_once_the_source_is_forgotten_statistics_become_a_mean_over_updates():
    found = np.random.default_rng(0).normal(size=30)
    settling, config = Settling(), OndaConfig(momentum=0.5, settled_momentum=0.001)
    online = statistics(2.0)
    for value in found:
        estimate = Estimate(statistics(value), torch.ones(4))
        online = online.lerp(estimate.statistics, settling.momentum(config, online, estimate))
    expected = 2.0
    for value in found[:4]:  # 2 / momentum updates as ever
        expected += 0.5 * (value - expected)
    # What there is then counts as 1 / momentum updates, of which the next one replaces one.
    expected = (1 * expected + found[4:].sum()) / (1 + len(found) - 4)
    torch.testing.assert_close(online.mean, torch.full((4,), expected).float())


def test_it_falls_to_the_settled_momentum_and_not_below():
    found = momenta(Settling(), FALLING, [0.1] * 70)
    assert found[:20] == [0.1] * 20
    assert found == sorted(found, reverse=True)
    assert found[-1] == 0.02


def test_a_surprise_brings_it_back_and_so_does_a_restart():
    settling = Settling()
    momenta(settling, FALLING, [0.1] * 70)
    assert momenta(settling, FALLING, [0.12, 0.5]) == [0.02, 0.1]
    momenta(settling, FALLING, [0.5] * 70)
    settling.restart()
    assert momenta(settling, FALLING, [0.5]) == [0.1]


def test_rows_that_did_not_take_part_do_not_surprise():
    share = torch.tensor([1.0, 1.0, 0.0, 0.0])
    found = Statistics(torch.tensor([1.0, 1.0, 9.0, 9.0]), torch.ones(4))
    assert difference(statistics(0), Estimate(found, share)) == pytest.approx(0.5)
    assert difference(statistics(0, 0.0), Estimate(statistics(0), share)) == 0.0


def test_onda_comes_to_rest_and_still_follows_a_change():
    torch.manual_seed(0)
    network = nn.Sequential(nn.BatchNorm1d(256)).eval()

    def wandering(config):
        onda = Onda(network, config)
        onda.reset()
        means = []
        for frame in torch.randn(800, 256, generator=torch.Generator().manual_seed(1)):
            onda.predict(frame)
            means.append(network[0].running_mean.clone())
        spread = torch.stack(means[400:]).std(0).mean()
        for frame in -3 + torch.randn(300, 256, generator=torch.Generator().manual_seed(2)):
            onda.predict(frame)
        arrived = network[0].running_mean.mean()
        onda.reset()
        onda.close()
        return float(spread), float(arrived)

    still, arrived = wandering(OndaConfig(estimator="streaming", settled_momentum=0.02))
    moving, _ = wandering(OndaConfig(estimator="streaming"))
    assert still < 0.6 * moving
    assert arrived == pytest.approx(-3, abs=0.6)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ConfigError, match="settled_momentum"):
        OndaConfig(settled_momentum=0.0)
