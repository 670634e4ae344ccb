# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_nodes.open_world import replay as replay_module
from newfound_nodes.open_world.replay import LateSubscriberReplay

IDS = [f"u{number}" for number in range(100)]


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand."""
    now = [100.0]
    monkeypatch.setattr(replay_module.time, "monotonic", lambda: now[0])
    return now


def ticks(replay, clock, subscribers, count):
    """Tick `count` times, a second apart; how many were announced each time."""
    counts = []
    for _ in range(count):
        before = len(replay.ids)
        replay.tick(subscribers, lambda: IDS)
        counts.append(len(replay.ids) - before)
        clock[0] += 1
    return counts


@pytest.fixture
def replay(clock):
    ids = []
    replay = LateSubscriberReplay(ids.append)
    replay.ids = ids
    return replay


def test_a_late_subscriber_gets_everything_a_few_at_a_time(replay, clock):
    assert ticks(replay, clock, 1, 13) == [0, *[10] * 10, 0, 0]
    assert replay.ids == IDS


def test_a_second_one_meanwhile_gets_everything_too(replay, clock):
    ticks(replay, clock, 1, 4)
    before = len(replay.ids)
    ticks(replay, clock, 2, 20)
    assert set(replay.ids[before:]) == set(IDS)


def test_nothing_is_replayed_when_a_subscriber_leaves(replay, clock):
    ticks(replay, clock, 2, 15)
    assert ticks(replay, clock, 1, 5) == [0] * 5


def test_many_ticks_in_a_moment_are_one(replay, clock):
    replay.add(IDS)
    for _ in range(5):
        replay.tick(0, list)
    assert len(replay.ids) == 10
