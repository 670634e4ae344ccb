# SPDX-License-Identifier: Apache-2.0
"""A beat at an even rate that does not drift."""

import threading
import time
from collections.abc import Callable


class Metronome:
    """Calls a function in a thread of its own, `rate` times a second.

    Each beat is due one period after the last was due, so that the time a beat takes does not
    add up. After a delay of more than a period the schedule begins anew; nothing is made up for.
    """

    def __init__(self, beat: Callable[[], None], rate: float, name: str = "metronome") -> None:
        self.rate = rate  # Hz; may change at any time
        self.late = 0  # beats after which the schedule began anew
        self._beat = beat
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin with a beat at once."""
        self._thread.start()

    def stop(self) -> None:
        """No beat begins after this; one may still be under way."""
        self._end.set()

    def stopped(self, patience: float) -> bool:
        """Wait for the beat under way; False if it takes longer than so many seconds."""
        self.stop()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._end.wait(max(0.0, due - time.monotonic())):
            self._beat()
            due, late = next_beat(due, time.monotonic(), 1 / self.rate)
            self.late += late


def next_beat(due: float, now: float, period: float) -> tuple[float, bool]:
    """When the next beat is due, and whether the schedule had to begin anew."""
    if now > due + 2 * period:
        return now, True
    return due + period, False
