# SPDX-License-Identifier: Apache-2.0
"""When to ask again, and after how long."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class RetryPolicy:
    """Waits that double, with some chance in them so that robots do not march in step."""

    retries: int = 2
    first_wait: float = 0.5  # s
    longest_wait: float = 10.0  # s; a server that asks for more is not waited for

    def waits(self) -> Iterator[float]:
        """How long to wait before each retry."""
        for attempt in range(self.retries):
            longest = min(self.longest_wait, self.first_wait * 2**attempt)
            yield longest * random.uniform(0.5, 1.0)


def retry_after(header: str, now: datetime | None = None) -> float:
    """The seconds that a Retry-After header asks for, as a number or as a date; 0 if unclear."""
    try:
        seconds = float(header)
    except ValueError:
        try:
            then = parsedate_to_datetime(header)
        except ValueError:
            return 0.0
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        seconds = (then - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0
