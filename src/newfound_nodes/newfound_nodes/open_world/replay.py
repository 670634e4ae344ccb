# SPDX-License-Identifier: Apache-2.0
"""Replay of waiting unknown objects for late subscribers."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable


class LateSubscriberReplay:
    """Publishes waiting unknown objects again when a subscriber comes late.

    A few at a time: all at once would not fit the queues on the way.
    """

    SETTLE = 0.5  # s; a subscriber that has found us can receive by then
    BATCH = 10  # what a subscriber with the usual queue depth can hold
    PAUSE = 0.5  # s between two batches

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._subscribers, self._new_since, self._announced_at = 0, math.inf, -math.inf
        self._ids: deque[str] = deque()  # still to be announced

    def add(self, ids: Iterable[str]) -> None:
        """Announce these, too."""
        self._ids = deque(dict.fromkeys([*self._ids, *ids]))

    def tick(self, subscribers: int, waiting: Callable[[], list[str]]) -> None:
        """Call it regularly, with the number of subscribers and a way to ask for what waits."""
        now = time.monotonic()
        if subscribers > self._subscribers:
            self._new_since = now
        self._subscribers = subscribers
        if now - self._new_since >= self.SETTLE:
            self._new_since = math.inf
            self.add(waiting())
        if now - self._announced_at >= self.PAUSE:
            self._announced_at = now
            for _ in range(min(self.BATCH, len(self._ids))):
                self._announce(self._ids.popleft())
