# SPDX-License-Identifier: Apache-2.0
import threading

import numpy as np
import pytest

from newfound_runtime.recordings import FrameError, Recording
from newfound_sim.player import Pixels, Player, RateTimer, next_tick


def test_the_time_that_ticks_take_does_not_add_up():
    due = 100.0
    for _ in range(300):
        due, late = next_tick(due, now=due + 0.007, period=0.1)
        assert not late
    assert due == pytest.approx(130.0)


def test_a_short_delay_is_made_up_for_and_a_long_one_is_not():
    assert next_tick(10.0, now=10.15, period=0.1) == (pytest.approx(10.1), False)
    assert next_tick(10.0, now=13.0, period=0.1) == (13.0, True)


def test_it_ticks_until_it_is_stopped():
    ticks, enough = [], threading.Event()

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 5:
            enough.set()

    timer = RateTimer(tick, rate=200.0)
    timer.start()
    assert enough.wait(10)
    assert timer.join(10)
    count = len(ticks)
    assert not threading.Event().wait(0.05)
    assert len(ticks) == count


def test_a_beat_that_does_not_return_is_reported():
    release = threading.Event()
    timer = RateTimer(lambda: bool(release.wait(30)), rate=100.0)
    timer.start()
    assert not timer.join(0.05)
    release.set()
    assert timer.join(10)


class Counting(Recording):
    """Four frames, of which 0 and 2 show the same picture; counts what is decoded."""

    def __init__(self, damaged: tuple[int, ...] = ()) -> None:
        self.decoded: list[int] = []
        self.damaged = damaged

    def __len__(self) -> int:
        return 4

    def picture_name(self, number: int) -> str:
        return "a" if number in (0, 2) else str(number)

    def rgb(self, number: int) -> np.ndarray:
        self.decoded.append(number)
        if number in self.damaged:
            raise FrameError("damaged")
        return np.full((2, 5, 3), number, np.uint8)


def numbers(player: Player, count: int, loop: bool) -> list:
    shots = [player.advance(loop) for _ in range(count)]
    return [(s.number, s.loop, s.last) if s else None for s in shots]


def test_without_a_loop_it_ends_with_a_last_frame():
    player = Player(Counting(), memory=1000)
    assert numbers(player, 6, loop=False) == [
        (0, 0, False), (1, 0, False), (2, 0, False), (3, 0, True), None, None
    ]  # fmt: skip
    assert player.ended
    player.rewind()
    assert numbers(player, 1, loop=False) == [(0, 0, False)]
    assert not player.ended


def test_with_a_loop_it_begins_anew_and_counts():
    player = Player(Counting(), memory=1000)
    found = numbers(player, 9, loop=True)
    assert [n for n, _, _ in found] == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert [loop for _, loop, _ in found] == [0] * 4 + [1] * 4 + [2]
    assert not any(last for _, _, last in found)


def test_a_loop_that_is_switched_on_at_the_end_goes_on():
    player = Player(Counting(), memory=1000)
    numbers(player, 5, loop=False)
    assert numbers(player, 1, loop=True) == [(0, 1, False)]


def test_pictures_that_fit_into_memory_are_decoded_once():
    source = Counting()
    player = Player(source, memory=90)  # three pictures of 30 bytes
    for number in (0, 1, 2, 3) * 3:
        assert player.picture(number).data[0] == (0 if number == 2 else number)
    assert source.decoded == [0, 1, 3]


def test_without_memory_only_the_newest_picture_is_at_hand():
    source = Counting()
    player = Player(source, memory=0)
    player.advance(loop=True)
    player.prepare(depth=True)
    player.picture(1)
    assert source.decoded == [1]
    player.picture(3)
    player.picture(1)
    assert source.decoded == [1, 3, 1]


def test_a_damaged_frame_raises_when_it_is_due_and_not_before():
    player = Player(Counting(damaged=(1,)), memory=1000)
    player.advance(loop=True)
    player.prepare(depth=False)
    with pytest.raises(FrameError):
        player.picture(1)
    with pytest.raises(FrameError):
        player.jpeg(1)
    assert bytes(player.jpeg(3)).startswith(b"\xff\xd8")


def test_pixels_are_packed_row_by_row():
    pixels = Pixels.of(np.arange(2 * 3, dtype=np.uint16).reshape(2, 3))
    assert (pixels.width, pixels.height) == (3, 2)
    assert pixels.data.tobytes() == np.arange(6, dtype="<u2").tobytes()
    turned = Pixels.of(np.arange(12, dtype=np.uint8).reshape(2, 2, 3)[..., ::-1])
    assert turned.data.tolist()[:3] == [2, 1, 0]
