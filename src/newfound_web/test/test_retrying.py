# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, datetime

import pytest

from newfound_web.retrying import RetryPolicy, retry_after

NOON = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def test_waits_double_and_stay_below_the_longest():
    policy = RetryPolicy(retries=5, first_wait=1.0, longest_wait=4.0)
    for wait, most in zip(policy.waits(), [1, 2, 4, 4, 4], strict=True):
        assert most / 2 <= wait <= most


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120), ("1.5", 1.5), ("Fri, 01 May 2026 12:00:30 GMT", 30),
        ("Fri, 01 May 2026 11:00:00 GMT", 0), ("", 0), ("-5", 0), ("soon", 0),
        ("nan", 0), ("inf", 0), ("1e999", 0), ("Fri, 99 May", 0),
    ],
)  # fmt: skip
def test_retry_after_is_read_as_a_number_or_a_date(header, seconds):
    assert retry_after(header, NOON) == seconds
