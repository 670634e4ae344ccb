# SPDX-License-Identifier: Apache-2.0
"""Timing two or more things so that the machine's moods hit them alike."""

import statistics
import time
from collections.abc import Callable, Mapping


def interleaved(
    contestants: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 3
) -> dict[str, list[float]]:
    """Seconds per call of each contestant, called in turn, `rounds` times."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(warm_up + rounds):
        for name, function in contestants.items():
            start = time.perf_counter()
            function()
            if number >= warm_up:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def median_ms(seconds: list[float]) -> float:
    """The median in milliseconds."""
    return 1e3 * statistics.median(seconds)


def percentile_ms(seconds: list[float], percent: int) -> float:
    """A percentile in milliseconds."""
    ordered = sorted(seconds)
    return 1e3 * ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
