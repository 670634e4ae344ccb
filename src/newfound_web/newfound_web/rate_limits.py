# SPDX-License-Identifier: Apache-2.0
"""Politeness: requests to one service are spaced evenly, and a service may ask for a pause."""

import asyncio
import time
from collections.abc import Callable

from newfound_web.errors import RateLimitError


class RateLimits:
    """Hands out turns. Nobody waits longer than `longest_wait` seconds: that is an error."""

    def __init__(self, longest_wait: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._longest_wait = longest_wait
        self._clock = clock
        self._free_at: dict[str, float] = {}  # service: when its next request may start

    async def turn(self, service: str, per_minute: float) -> None:
        """Wait until a request to this service may start."""
        now = self._clock()
        start = max(now, self._free_at.get(service, now))
        if start - now > self._longest_wait:
            raise RateLimitError(f"{service} may be asked again only in {start - now:.0f} s")
        self._forget_the_past(now)
        self._free_at[service] = start + 60.0 / per_minute
        await asyncio.sleep(start - now)

    def pause(self, service: str, seconds: float) -> None:
        """No request to this service for a while, because it said so."""
        self._free_at[service] = max(self._free_at.get(service, 0.0), self._clock() + seconds)

    def _forget_the_past(self, now: float) -> None:
        if len(self._free_at) > 1000:  # image hosts: as many as the web has
            self._free_at = {s: t for s, t in self._free_at.items() if t > now}
