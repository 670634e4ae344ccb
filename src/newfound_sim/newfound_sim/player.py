# SPDX-License-Identifier: Apache-2.0
"""Plays a source: which frame is next, and pictures at hand when they are due."""

from __future__ import annotations

import array
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from newfound_sim.sources import FrameError, Source


@dataclass(frozen=True)
class Pixels:
    """A picture as a ROS message wants it."""

    width: int
    height: int
    data: array.array

    @staticmethod
    def of(picture: np.ndarray) -> Pixels:
        """Pack an array [H, W, …]; costs one copy."""
        data = array.array("B")
        data.frombytes(np.ascontiguousarray(picture).data.cast("B"))
        return Pixels(picture.shape[1], picture.shape[0], data)


@dataclass(frozen=True)
class Shot:
    """A frame on its way out."""

    number: int
    loop: int
    last: bool


class Player:
    """Steps through a source, over and over if it loops.

    Decoded pictures are kept until `memory` bytes are full: a clip that fits is decoded once.
    """

    def __init__(self, source: Source, memory: int) -> None:
        self.source = source
        self.position = self.loops = 0
        self.ended = False
        self._memory = memory
        self._kept: dict[tuple[str, str], Pixels] = {}
        self._newest: dict[str, tuple[str, Pixels]] = {}  # by kind, when memory is full
        self._whole: set[str] = set()  # pictures that were decoded without complaint

    def rewind(self) -> None:
        """Begin anew."""
        self.position = self.loops = 0
        self.ended = False

    def advance(self, loop: bool) -> Shot | None:
        """The frame that is due now; None at the end."""
        if self.position >= len(self.source):
            self.ended = not loop
            if self.ended:
                return None
            self.position, self.loops = 0, self.loops + 1
        shot = Shot(self.position, self.loops, not loop and self.position + 1 >= len(self.source))
        self.position += 1
        self.ended = shot.last
        return shot

    def picture(self, number: int) -> Pixels:
        """The picture of a frame."""
        name = self.source.picture_name(number)
        found = self._get("rgb", name, lambda: Pixels.of(self.source.rgb(number)))
        self._whole.add(name)
        return found

    def depth(self, number: int) -> Pixels | None:
        """The depth of a frame, if it has one."""
        name = self.source.depth_name(number)
        if name is None:
            return None
        return self._get("depth", name, lambda: Pixels.of(self.source.depth(number)))

    def jpeg(self, number: int) -> array.array:
        """The picture as a JPEG file, known to be whole."""
        if self.source.picture_name(number) not in self._whole:
            self.picture(number)
        return array.array("B", self.source.jpeg(number))

    def prepare(self, depth: bool) -> None:
        """Decode the frame that comes next, so that it is at hand when it is due."""
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
