# SPDX-License-Identifier: Apache-2.0
"""The state of a node as diagnostics: one status per node, once a second."""

import time
from collections.abc import Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from newfound_nodes.mailbox import StreamCounters

STALE_AFTER = 3.0  # s without a frame while one is asked for
FAILING_AFTER = 10  # frames failed in a row


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
            return DiagnosticStatus.OK, "idle: nobody listens to the outputs", numbers
        if now - self._last_arrival > STALE_AFTER:
            silence = now - self._last_arrival
            return DiagnosticStatus.WARN, f"no image for {silence:.0f} s", numbers
        return DiagnosticStatus.OK, "running", numbers


def status_message(
    stamp: object, name: str, level: bytes, text: str, values: Mapping[str, object]
) -> DiagnosticArray:
    """One node's status as it goes out on /diagnostics."""
    status = DiagnosticStatus(level=level, name=name, message=text)
    status.hardware_id = str(values.get("device", ""))
    status.values = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
    array = DiagnosticArray(status=[status])
    array.header.stamp = stamp
    return array
