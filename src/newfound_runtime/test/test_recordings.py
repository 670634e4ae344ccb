# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_runtime.recordings import MonotonicStamps, nearest, rate_of


def test_stamps_never_go_back_and_keep_their_distances():
    stamps = MonotonicStamps(period=0.1)
    loops = [[stamps.next(s) for s in (1000, 1500, 1700)] for _ in range(3)]
    flat = [stamp for loop in loops for stamp in loop]
    assert loops[0] == [1000, 1500, 1700]
    assert flat == sorted(set(flat))
    assert [b - a for a, b in zip(loops[2], loops[2][1:], strict=False)] == [500, 200]
    assert loops[1][0] - loops[0][2] == 100_000_000


def test_the_nearest_stamp_is_found_on_either_side():
    assert nearest([10, 20, 30], [14, 16, 31, 99, -5], 5) == [0, 1, 2, None, None]
    assert nearest([], [1], 5) == [None]


def test_the_rate_is_that_of_most_frames():
    assert rate_of([0, 10**8, 2 * 10**8, 9 * 10**9]) == pytest.approx(10.0)
    assert rate_of([5]) == 10.0
