# SPDX-License-Identifier: Apache-2.0
"""Playback of a source: a timer at a steady rate, the next frame, decoded images at hand."""

from __future__ import annotations

import array
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from newfound_runtime.recordings import FrameError, Recording


class RateTimer:
    """Call a function at a fixed rate, in its own thread.

    Each tick is due one period after the last was due, so that a tick's duration does not add
    up. After a delay of more than a period the schedule starts over; missed ticks are dropped.
    """

    def __init__(self, tick: Callable[[], None], rate: float, name: str = "rate-timer") -> None:
        self.rate = rate  # Hz; may change at any time
        self.late = 0  # how often the schedule started over
        self._tick = tick
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start with a tick at once."""
        self._thread.start()

    def stop(self) -> None:
        """Start no further tick; one may still be running."""
        self._end.set()

    def join(self, timeout: float) -> bool:
        """Stop, and wait for the running tick; False if it takes longer than `timeout` seconds."""
        self.stop()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._end.wait(max(0.0, due - time.monotonic())):
            self._tick()
            due, late = next_tick(due, time.monotonic(), 1 / self.rate)
            self.late += late


def next_tick(due: float, now: float, period: float) -> tuple[float, bool]:
    """When the next tick is due, and whether the schedule had to start over."""
    if now > due + 2 * period:
        return now, True
    return due + period, False


@dataclass(frozen=True)
class Pixels:
    """An image as the data field of a ROS message."""

    width: int
    height: int
    data: array.array
    encoding: str  # of sensor_msgs/Image

    @staticmethod
    def of(picture: np.ndarray) -> Pixels:
        """Pack colour [H, W, 3], depth [H, W] in uint16 or float32, or a mask in uint8."""
        data = array.array("B")
        data.frombytes(np.ascontiguousarray(picture).data.cast("B"))
        single = {"uint8": "mono8", "uint16": "16UC1"}.get(picture.dtype.name, "32FC1")
        encoding = "rgb8" if picture.ndim == 3 else single
        return Pixels(picture.shape[1], picture.shape[0], data, encoding)


@dataclass(frozen=True)
class PlayedFrame:
    """Which frame is to be published."""

    number: int
    loop: int
    last: bool


class Player:
    """Steps through a source, over and over if it loops.

    Decoded pictures are kept until `memory` bytes are full: a clip that fits is decoded once.
    """

    def __init__(self, source: Recording, memory: int) -> None:
        self.source = source
        self.position = self.loops = 0
        self.ended = False
        self._memory = memory
        self._kept: dict[tuple[str, str], Pixels] = {}
        self._newest: dict[str, tuple[str, Pixels]] = {}  # by kind, when memory is full
        self._decoded: set[str] = set()  # images that were decoded without an error

    def rewind(self) -> None:
        """Start over."""
        self.position = self.loops = 0
        self.ended = False

    def advance(self, loop: bool) -> PlayedFrame | None:
        """Step to the next frame and return it; None at the end."""
        if self.position >= len(self.source):
            self.ended = not loop
            if self.ended:
                return None
            self.position, self.loops = 0, self.loops + 1
        frame = PlayedFrame(
            self.position, self.loops, not loop and self.position + 1 >= len(self.source)
        )
        self.position += 1
        self.ended = frame.last
        return frame

    def picture(self, number: int) -> Pixels:
        """The picture of a frame."""
        name = self.source.picture_name(number)
        found = self._get("rgb", name, lambda: Pixels.of(self.source.rgb(number)))
        self._decoded.add(name)
        return found

    def depth(self, number: int) -> Pixels | None:
        """The depth of a frame, if it has one."""
        name = self.source.depth_name(number)
        if name is None:
            return None
        return self._get("depth", name, lambda: Pixels.of(self.source.depth(number)))

    def mask(self, name: str, read: Callable[[], np.ndarray]) -> Pixels:
        """The mask of classes with this name."""
        return self._get("mask", name, lambda: Pixels.of(read()))

    def jpeg(self, number: int) -> array.array:
        """The picture as a JPEG file that is known to decode."""
        if self.source.picture_name(number) not in self._decoded:
            self.picture(number)
        return array.array("B", self.source.jpeg(number))

    def prepare(self, depth: bool) -> None:
        """Decode the next frame ahead of time."""
        following = self.position if self.position < len(self.source) else 0
        try:
            self.picture(following)
            if depth:
                self.depth(following)
        except FrameError:
            pass  # raised again, and counted, when the frame is due

    def _get(self, kind: str, name: str, make: Callable[[], Pixels]) -> Pixels:
        if (kind, name) in self._kept:
            return self._kept[kind, name]
        newest = self._newest.get(kind)
        if newest is not None and newest[0] == name:
            return newest[1]
        found = make()
        size = len(found.data)
        if size <= self._memory:
            self._memory -= size
            self._kept[kind, name] = found
        else:
            self._newest[kind] = (name, found)
        return found
