# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_nodes.open_world import newcomers
from newfound_nodes.open_world.newcomers import Newcomers

IDS = [f"u{number}" for number in range(100)]


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand."""
    now = [100.0]
    monkeypatch.setattr(newcomers.time, "monotonic", lambda: now[0])
    return now


def ticks(told, clock, listeners, count):
    """Tick so often, a second apart; how many were told of each time."""
    told_of = []
    for _ in range(count):
        before = len(told.ids)
        told.tick(listeners, lambda: IDS)
        told_of.append(len(told.ids) - before)
        clock[0] += 1
    return told_of


@pytest.fixture
def told(clock):
    ids = []
    newcomers = Newcomers(ids.append)
    newcomers.ids = ids
    return newcomers


def test_a_newcomer_is_told_of_everything_a_few_at_a_time(told, clock):
    assert ticks(told, clock, 1, 13) == [0, *[10] * 10, 0, 0]
    assert told.ids == IDS


def test_a_second_newcomer_meanwhile_hears_everything_too(told, clock):
    ticks(told, clock, 1, 4)
    before = len(told.ids)
    ticks(told, clock, 2, 20)
    assert set(told.ids[before:]) == set(IDS)


def test_whoever_leaves_is_no_newcomer(told, clock):
    ticks(told, clock, 2, 15)
    assert ticks(told, clock, 1, 5) == [0] * 5


def test_many_ticks_in_a_moment_are_one(told, clock):
    told.add(IDS)
    for _ in range(5):
        told.tick(0, list)
    assert len(told.ids) == 10
