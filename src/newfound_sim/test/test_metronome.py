# SPDX-License-Identifier: Apache-2.0
import threading

import pytest

from newfound_sim.metronome import Metronome, next_beat


def test_the_time_that_beats_take_does_not_add_up():
    due = 100.0
    for _ in range(300):
        due, late = next_beat(due, now=due + 0.007, period=0.1)
        assert not late
    assert due == pytest.approx(130.0)


def test_a_short_delay_is_made_up_for_and_a_long_one_is_not():
    assert next_beat(10.0, now=10.15, period=0.1) == (pytest.approx(10.1), False)
    assert next_beat(10.0, now=13.0, period=0.1) == (13.0, True)


def test_it_beats_until_it_is_stopped():
    beats, enough = [], threading.Event()

    def beat() -> None:
        beats.append(1)
        if len(beats) == 5:
            enough.set()

    metronome = Metronome(beat, rate=200.0)
    metronome.start()
    assert enough.wait(10)
    assert metronome.stopped(10)
    count = len(beats)
    assert not threading.Event().wait(0.05)
    assert len(beats) == count


def test_a_beat_that_does_not_return_is_reported():
    release = threading.Event()
    metronome = Metronome(lambda: bool(release.wait(30)), rate=100.0)
    metronome.start()
    assert not metronome.stopped(0.05)
    release.set()
    assert metronome.stopped(10)
