# SPDX-License-Identifier: Apache-2.0

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from newfound_core.errors import ConfigError
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.estimators import Estimate
from newfound_core.onda.safeguards import (
    BalancedMemory,
    LatestFrames,
    Observation,
    RedundancyFilter,
    Settling,
    appearance,
    difference,
)
from newfound_core.onda.statistics import Statistics


def test_the_latest_frames_are_drawn_once_and_never_more_than_the_limit():
    frames = LatestFrames()
    for index in range(25):
        frames.add(Observation(index), limit=10)
    assert [o.sample for o in frames.draw(10)] == list(range(15, 25))
    assert frames.draw(10) == []


def test_one_class_alone_fills_its_share_only():
    memory = BalancedMemory(size=12, classes=4)
    for index in range(100):
        memory.add(Observation(index, label=2), limit=10)
    assert memory.count() == {2: 3}


def test_within_a_class_the_uncertain_go_first():
    memory = BalancedMemory(size=4, classes=2)
    for name, uncertainty in [("sure", 0.1), ("unsure", 0.9), ("new", 0.2)]:
        memory.add(Observation(name, label=0, uncertainty=uncertainty), limit=10)
    assert {o.sample for o in memory.draw(4)} == {"sure", "new"}


def test_within_a_class_the_old_go_first():
    memory = BalancedMemory(size=4, classes=2)
    for index in range(10):
        memory.add(Observation(index, label=0, uncertainty=0.5), limit=10)
    assert {o.sample for o in memory.draw(4)} == {8, 9}


def test_a_draw_is_balanced_over_classes_and_leaves_the_memory_as_it_is():
    memory = BalancedMemory(size=40, classes=3)
    for index in range(60):
        memory.add(Observation(index, label=min(2, index // 20)), limit=10)
    assert Counter(o.label for o in memory.draw(9)) == {0: 3, 1: 3, 2: 3}
    assert len(memory) == 39


def test_a_full_memory_makes_room_in_its_largest_class():
    memory = BalancedMemory(size=4, classes=100)  # more classes than places: share of one
    for label in range(6):
        memory.add(Observation(label, label=label), limit=10)
    assert len(memory) == 4
    assert 5 in memory.count()


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1)), max_size=80), st.integers(2, 20))
def test_the_memory_never_exceeds_its_size(stream, size):
    memory = BalancedMemory(size=size, classes=3)
    for label, uncertainty in stream:
        memory.add(Observation(None, label=label, uncertainty=uncertainty), limit=10)
        assert len(memory) <= size
    drawn = memory.draw(10)
    assert len(drawn) == min(10, len(memory))
    assert len({id(o) for o in drawn}) == len(drawn)


def frames_in_a_light(brightness, labels, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for label in labels:
        image = brightness + 0.3 * torch.randn(3, 8, 8, generator=generator)
        image += 0.3 * torch.randn(3, 1, 1, generator=generator)  # what it shows
        yield Observation(brightness, label, appearance=appearance(image))


def test_a_new_light_empties_the_memory_and_a_new_thing_does_not():
    memory = BalancedMemory(size=30, classes=3)
    for observation in frames_in_a_light(1.0, [0, 1, 2] * 12):
        memory.add(observation, 5)
    for observation in frames_in_a_light(1.2, [0] * 10, seed=1):
        memory.add(observation, 5)
    assert memory.count()[1] == memory.count()[2] == 10
    for observation in frames_in_a_light(-1.5, [0] * 10, seed=2):
        memory.add(observation, 5)
    assert set(memory.count()) == {0}
    assert {o.sample for o in memory.draw(30)} == {-1.5}


@pytest.mark.parametrize("brightness", [-1.5, -9.0])
def test_no_frame_of_the_old_light_is_kept_however_much_darker_it_is(brightness):
    memory = BalancedMemory(size=30, classes=3)
    for observation in frames_in_a_light(1.0, [0, 1, 2] * 12):
        memory.add(observation, 5)
    for observation in frames_in_a_light(brightness, [0] * 10, seed=2):
        memory.add(observation, 5)
    assert {o.sample for o in memory.draw(30)} == {brightness}


def test_after_a_slow_change_of_light_no_frame_of_the_old_light_is_kept():
    """Although its classes are no longer predicted, so that nothing replaces it."""
    memory = BalancedMemory(size=30, classes=3)
    for observation in frames_in_a_light(1.0, [0, 1, 2] * 12):
        memory.add(observation, 5)
    for step in range(200):
        [observation] = frames_in_a_light(1 - 0.05 * min(step, 50), [0], seed=step)
        memory.add(observation, 5)
    assert {round(o.sample, 2) for o in memory.draw(30)} == {-1.5}


def test_what_is_no_image_has_no_appearance():
    assert appearance(torch.zeros(7)) is None


def test_sensor_noise_is_redundant_and_a_new_view_is_not():
    redundancy = RedundancyFilter()
    view = torch.randn(1, 3, 1, 1).expand(1, 3, 64, 64)
    assert not redundancy.is_redundant(view, 0.02)
    assert redundancy.is_redundant(view + 0.05 * torch.randn(1, 3, 64, 64), 0.02)
    assert not redundancy.is_redundant(view + 1, 0.02)


def test_slow_movement_counts_in_time():
    redundancy = RedundancyFilter()
    frame = torch.zeros(1, 3, 16, 16)
    redundant = [redundancy.is_redundant(frame + 0.009 * step, 0.02) for step in range(7)]
    assert redundant == [False, True, True, False, True, True, False]


def test_a_new_camera_format_is_never_redundant():
    redundancy = RedundancyFilter()
    assert not redundancy.is_redundant(torch.zeros(1, 3, 16, 16), 0.02)
    assert not redundancy.is_redundant(torch.zeros(1, 1, 16, 16), 0.02)


FALLING = OndaConfig.thesis(momentum=0.1, settled_momentum=0.02)


def statistics(mean, variance=1.0, rows=4):
    return Statistics(torch.full((rows,), float(mean)), torch.full((rows,), float(variance)))


def momenta(settling, config, differences):
    return [
        settling.momentum(config, statistics(0), Estimate(statistics(d), torch.ones(4)))
        for d in differences
    ]


def test_without_a_settled_momentum_it_stays():
    assert momenta(Settling(), OndaConfig.thesis(momentum=0.3), [1.0, 5.0, 0.1]) == [0.3] * 3


def test_once_the_source_is_forgotten_statistics_become_a_mean_over_updates():
    found = np.random.default_rng(0).normal(size=30)
    settling, config = Settling(), OndaConfig.thesis(momentum=0.5, settled_momentum=0.001)
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

    still, arrived = wandering(OndaConfig.thesis(estimator="streaming", settled_momentum=0.02))
    moving, _ = wandering(OndaConfig.thesis(estimator="streaming"))
    assert still < 0.6 * moving
    assert arrived == pytest.approx(-3, abs=0.6)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ConfigError, match="settled_momentum"):
        OndaConfig.thesis(settled_momentum=0.0)
