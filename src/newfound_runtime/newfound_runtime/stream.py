# SPDX-License-Identifier: Apache-2.0
"""A stream of frames between subscription and worker: a one-slot mailbox, counters, health."""

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from diagnostic_msgs.msg import DiagnosticStatus

STALE_AFTER = 3.0  # s without a frame while one is asked for
FAILING_AFTER = 10  # frames failed in a row
T = TypeVar("T")


class Mailbox(Generic[T]):
    """A slot for one item between a producer that must not wait and a consumer that is slow.

    Putting into a full slot replaces what is there: a robot acts on what is, not on what was.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._item: T | None = None
        self._closed = False

    def put(self, item: T) -> bool:
        """Store an item; True if it replaced one that was not taken."""
        with self._condition:
            replaced = self._item is not None
            self._item = item
            self._condition.notify()
            return replaced

    def take(self) -> T | None:
        """Wait for an item and take it; None once the mailbox is closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._item is not None or self._closed)
            item, self._item = self._item, None
            return None if self._closed else item

    def clear(self) -> bool:
        """Drop what is waiting; True if there was something."""
        with self._condition:
            waiting, self._item = self._item is not None, None
            return waiting

    def close(self) -> None:
        """Let the consumer's `take` return None, now and ever after."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()


@dataclass
class StreamCounters:
    """What became of the frames: received = processed + dropped + failed + waiting."""

    received: int = 0  # arrived over DDS while the node was active
    processed: int = 0  # went through the model
    dropped: int = 0  # above max_rate, replaced by a newer one, or left over at deactivation
    failed: int = 0  # not decodable, or the model raised
    consecutive_failures: int = 0
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=256))  # s, in to out
    ages: deque[float] = field(default_factory=lambda: deque(maxlen=256))  # s, stamp to out
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def receive(self) -> None:
        """Count an arrival."""
        with self._lock:
            self.received += 1

    def drop(self) -> None:
        """Count a frame that was replaced before the worker took it."""
        with self._lock:
            self.dropped += 1

    def fail(self) -> None:
        """Count a frame that could not be decoded or processed."""
        with self._lock:
            self.failed += 1
            self.consecutive_failures += 1

    def finish(self, latency: float, age: float | None) -> None:
        """Count a processed frame; `age` is None when its stamp is not of this clock."""
        with self._lock:
            self.processed += 1
            self.consecutive_failures = 0
            self.latencies.append(latency)
            if age is not None:
                self.ages.append(age)

    def snapshot(self) -> dict[str, float]:
        """Counts, and percentiles of the last frames in milliseconds, for diagnostics."""
        with self._lock:
            numbers: dict[str, float] = {
                "received": self.received,
                "processed": self.processed,
                "dropped": self.dropped,
                "failed": self.failed,
            }
            for name, values in (("latency", sorted(self.latencies)), ("age", sorted(self.ages))):
                for percent in (50, 95, 99):
                    if values:
                        rank = min(len(values) - 1, len(values) * percent // 100)
                        numbers[f"{name}_p{percent}_ms"] = round(1e3 * values[rank], 2)
            return numbers


class StreamHealth:
    """Turns counters into a level, a sentence and a rate."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._processed = self._received = self._failed = 0
        self._last_arrival = self._at

    def assess(
        self, counters: StreamCounters, subscribed: bool
    ) -> tuple[bytes, str, dict[str, object]]:
        """Level, message and values since the last call."""
        now = time.monotonic()
        numbers: dict[str, object] = dict(counters.snapshot())
        seconds = max(now - self._at, 1e-3)
        numbers["rate_hz"] = round((counters.processed - self._processed) / seconds, 2)
        newly_failed = counters.failed - self._failed
        if counters.received != self._received or not subscribed:
            self._last_arrival = now
        self._at, self._processed = now, counters.processed
        self._received, self._failed = counters.received, counters.failed

        if counters.consecutive_failures >= FAILING_AFTER:
            message = f"the last {counters.consecutive_failures} frames failed; see the log"
            return DiagnosticStatus.ERROR, message, numbers
        if newly_failed:
            return DiagnosticStatus.WARN, f"{newly_failed} frames failed", numbers
        if not subscribed:
            return DiagnosticStatus.OK, "idle: no output has a subscriber", numbers
        if now - self._last_arrival > STALE_AFTER:
            silence = now - self._last_arrival
            return DiagnosticStatus.WARN, f"no image for {silence:.0f} s", numbers
        return DiagnosticStatus.OK, "running", numbers
