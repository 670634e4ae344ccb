# SPDX-License-Identifier: Apache-2.0
"""Which frames are learned from, by how far frames lie from the statistics."""

import random

import pytest

from newfound_core.onda.schedule import SETTLED, UNWATCHED_EVERY, LearningSchedule

EVERY, FRAMES, MOMENTUM = 7, 10, 0.1
UPDATES = 16  # 0.9^16 is the first power below SETTLED


class Stream:
    """Shows frames to a schedule as an adapter does, and remembers which were learned from."""

    def __init__(self, every=EVERY, seed=0, momentum=MOMENTUM, frames=FRAMES):
        self.schedule, self.random = LearningSchedule(every), random.Random(seed)
        self.momentum, self.frames = momentum, frames
        self.learned, self.gathered = [], 0

    def show(self, count, distance=0.08, noise=0.015):
        """Frames at such a distance, a number or a function of the frame; how many taught."""
        before = sum(self.learned)
        for number in range(count):
            self.learned.append(taken := self.schedule.takes_next())
            if taken:
                centre = distance(number) if callable(distance) else distance
                self.schedule.observe(abs(self.random.gauss(centre, noise)))
                self.gathered += 1
            if self.gathered == self.frames:
                self.gathered = 0
                self.schedule.note_update(self.momentum)
        return sum(self.learned) - before


def settled(**options):
    stream = Stream(**options)
    stream.show(300)
    assert stream.schedule.settled
    return stream


def test_every_frame_is_learned_from_until_little_of_the_old_statistics_is_left():
    assert (1 - MOMENTUM) ** UPDATES < SETTLED < (1 - MOMENTUM) ** (UPDATES - 1)
    stream = Stream()
    assert stream.show(UPDATES * FRAMES) == UPDATES * FRAMES
    assert stream.schedule.settled
    assert 10 <= stream.show(70) <= 13  # one in seven, and those after a suspicious one


def test_a_larger_momentum_settles_sooner():
    stream = Stream(momentum=0.5)
    assert stream.show(3 * FRAMES) == 3 * FRAMES
    assert stream.schedule.settled


@pytest.mark.parametrize("seed", range(10))
def test_after_a_change_every_frame_is_learned_from_for_as_long_again(seed):
    stream = settled(seed=seed)
    stream.show(2 * EVERY, distance=0.15)
    assert not stream.schedule.settled
    taught = stream.show((UPDATES + 3) * FRAMES)
    assert (UPDATES - 2) * FRAMES < taught < (UPDATES + 3) * FRAMES


def test_after_a_suspicious_frame_the_next_is_learned_from_too():
    schedule = settled().schedule
    while not schedule.takes_next():
        pass
    schedule.observe(0.15)
    assert schedule.settled
    assert schedule.takes_next()
    schedule.observe(0.08)
    schedule.observe(0.08)
    schedule.observe(0.08)
    assert sum(schedule.takes_next() for _ in range(2 * EVERY)) == 2


def test_a_single_strange_frame_is_no_change():
    stream = settled()
    for _ in range(20):
        stream.show(200)
        while not stream.schedule.takes_next():
            pass
        stream.schedule.observe(0.08 + 8 * 0.015)
    assert stream.schedule.settled


def test_sampling_noise_hardly_ever_looks_like_a_change():
    taught = sum(settled(seed=seed).show(5000) for seed in range(10))
    assert taught < 1.15 * 50_000 / EVERY


def test_a_slow_drift_is_noticed_although_no_two_frames_tell_it():
    stream = settled()
    taught = stream.show(3000, distance=lambda number: 0.08 + number * 0.05 / 3000)
    assert taught > 3000 / EVERY + UPDATES * FRAMES / 2


def test_a_change_while_every_frame_is_learned_from_begins_anew():
    stream = Stream()
    stream.show(UPDATES * FRAMES - 5)
    assert stream.show((UPDATES - 1) * FRAMES, distance=0.2) == (UPDATES - 1) * FRAMES
    stream.show(3 * UPDATES * FRAMES)
    assert stream.schedule.settled


def test_lights_that_take_turns_all_the_time_become_usual():
    stream = Stream()
    stream.show(1200, distance=lambda number: 0.08 if number // 30 % 2 else 0.14)
    assert stream.schedule.settled
    taught = stream.show(3000, distance=lambda number: 0.08 if number // 30 % 2 else 0.14)
    assert taught < 3000 / 2


def test_two_cameras_that_take_turns_are_both_learned_from():
    stream = settled()
    first = len(stream.learned)
    stream.show(140)
    assert {place % 2 for place, taken in enumerate(stream.learned[first:]) if taken} == {0, 1}


def test_a_camera_that_stands_still_does_not_see_a_change_in_rounding():
    stream = Stream()
    stream.show(300, distance=0.01, noise=0.0)
    stream.show(700, distance=0.0105, noise=0.0001)
    assert stream.schedule.settled
    stream.show(3 * EVERY, distance=0.08)
    assert not stream.schedule.settled


def test_what_is_usual_is_measured_on_after_a_quick_settling():
    """Three updates of few frames, and the first frames were far away."""
    stream = Stream(momentum=0.5, frames=4)
    stream.show(4, distance=0.3)
    stream.show(8)
    assert stream.schedule.settled
    stream.show(400)
    assert stream.schedule.settled
    stream.show(3 * EVERY, distance=0.15)
    assert not stream.schedule.settled


@pytest.mark.parametrize("frames", [2, 3, 11, 29])
def test_updates_of_any_number_of_frames_settle_and_notice(frames):
    stream = Stream(frames=frames)
    stream.show((UPDATES + 4) * max(frames, FRAMES))
    assert stream.schedule.settled
    assert stream.show(5 * EVERY, distance=0.2) > 3 * EVERY


def test_after_a_restart_nothing_is_known_and_every_frame_is_learned_from():
    stream = settled()
    stream.schedule.restart()
    stream.gathered = 0
    assert stream.show(UPDATES * FRAMES, distance=0.5) == UPDATES * FRAMES
    assert stream.schedule.settled


def test_where_nothing_is_watched_one_frame_in_three_is_learned_from():
    schedule = LearningSchedule(EVERY, watched=False)
    assert [schedule.takes_next() for _ in range(6)] == [False, False, True] * 2
    schedule.note_update(0.1)
    assert sum(schedule.takes_next() for _ in range(30)) == 30 / UNWATCHED_EVERY
    assert all(LearningSchedule(1, watched=False).takes_next() for _ in range(3))
