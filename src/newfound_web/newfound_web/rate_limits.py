# SPDX-License-Identifier: Apache-2.0
"""Politeness: requests to one service are spaced, and a service may ask for a pause."""

import asyncio
import time
from collections.abc import Callable

from newfound_web.errors import RateLimitError

BURST = 5  # requests that may follow each other at once after a silence


class RateLimits:
    """Hands out turns. Nobody waits longer than `longest_wait` seconds: that is an error.

    After a silence a few requests go at once, as the pages of one search; then they are spaced
    evenly (the generic cell rate algorithm).
    """

    def __init__(
        self,
        longest_wait: float,
        burst: int = BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._longest_wait = longest_wait
        self._burst = burst
        self._clock = clock
        self._due: dict[str, float] = {}  # service: when its next request would be on time
        self._paused: dict[str, float] = {}  # service: until when

    async def turn(self, service: str, per_minute: float) -> None:
        """Wait until a request to this service may start."""
        now, interval = self._clock(), 60.0 / per_minute
        due = max(now, self._due.get(service, now))
        start = max(now, due - (self._burst - 1) * interval, self._paused.get(service, now))
        if start - now > self._longest_wait:
            raise RateLimitError(f"{service} may be asked again only in {start - now:.0f} s")
        self._forget_the_past(now)
        self._due[service] = max(due, start) + interval
        await asyncio.sleep(start - now)

    def pause(self, service: str, seconds: float) -> None:
        """No request to this service for a while, because it said so."""
        self._paused[service] = max(self._paused.get(service, 0.0), self._clock() + seconds)

    def _forget_the_past(self, now: float) -> None:
        for times in (self._due, self._paused):
            if len(times) > 1000:  # image hosts: as many as the web has
                for service in [s for s, time_ in times.items() if time_ <= now]:
                    del times[service]
