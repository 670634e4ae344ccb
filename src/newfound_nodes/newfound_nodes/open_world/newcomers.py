# SPDX-License-Identifier: Apache-2.0
"""Whoever begins to listen to unknown objects is told which ones wait; others hear it again."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable

_A_MOMENT = 0.5  # s; whoever has found us can hear us by then
_AT_ONCE = 10  # what a subscriber with the usual depth of its queue can hold
_PAUSE = 0.5  # s between that many and the next


class Newcomers:
    """Tells them a few at a time: all at once would not fit the queues on the way."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._listeners, self._new_since, self._told_at = 0, math.inf, -math.inf
        self._ids: deque[str] = deque()  # still to be told of

    def add(self, ids: Iterable[str]) -> None:
        """Tell of these, too."""
        self._ids = deque(dict.fromkeys([*self._ids, *ids]))

    def tick(self, listeners: int, waiting: Callable[[], list[str]]) -> None:
        """Now and then, with the number of listeners and a way to ask for what waits."""
        now = time.monotonic()
        if listeners > self._listeners:
            self._new_since = now
        self._listeners = listeners
        if now - self._new_since >= _A_MOMENT:
            self._new_since = math.inf
            self.add(waiting())
        if now - self._told_at >= _PAUSE:
            self._told_at = now
            for _ in range(min(_AT_ONCE, len(self._ids))):
                self._tell(self._ids.popleft())
