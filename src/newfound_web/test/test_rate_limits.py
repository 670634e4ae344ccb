# SPDX-License-Identifier: Apache-2.0
import asyncio

import pytest

from newfound_web import rate_limits
from newfound_web.errors import RateLimitError
from newfound_web.rate_limits import RateLimits


@pytest.fixture
def slept(monkeypatch):
    """How long was slept, without sleeping."""
    times = []

    async def sleep(seconds):
        times.append(seconds)

    monkeypatch.setattr(rate_limits.asyncio, "sleep", sleep)
    return times


def turns(limits, *services, per_minute=60):
    async def take():
        for service in services:
            await limits.turn(service, per_minute)

    asyncio.run(take())


def test_requests_to_one_service_are_spaced_and_others_do_not_wait(slept):
    turns(RateLimits(10.0, 1, clock=lambda: 5.0), "a", "a", "b", "a")
    assert slept == [0.0, 1.0, 0.0, 2.0]


def test_nobody_waits_longer_than_the_limit(slept):
    limits = RateLimits(1.5, 1, clock=lambda: 0.0)
    turns(limits, "a", "a")
    with pytest.raises(RateLimitError, match="a may be asked again only in 2 s"):
        turns(limits, "a")


def test_a_refused_turn_does_not_push_the_queue_back(slept):
    now = [0.0]
    limits = RateLimits(0.5, 1, clock=lambda: now[0])
    turns(limits, "a")
    for _ in range(5):
        with pytest.raises(RateLimitError):
            turns(limits, "a")
    now[0] = 1.0
    turns(limits, "a")
    assert slept[-1] == 0.0


def test_after_a_silence_some_requests_go_at_once_and_the_rate_is_kept(slept):
    now = [0.0]
    limits = RateLimits(10.0, burst=3, clock=lambda: now[0])
    turns(limits, *"aaaaa")
    assert slept == [0.0, 0.0, 0.0, 1.0, 2.0]
    now[0] = 100.0
    turns(limits, *"aaaa")
    assert slept[5:] == [0.0, 0.0, 0.0, 1.0]


def test_a_pause_holds_for_its_service_only(slept):
    limits = RateLimits(10.0, clock=lambda: 0.0)
    limits.pause("a", 60.0)
    turns(limits, "b")
    with pytest.raises(RateLimitError, match="60 s"):
        turns(limits, "a")
