# SPDX-License-Identifier: Apache-2.0
"""Outlines that become masks, and what a page may send of them."""

import asyncio
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from newfound_console.bridge import CallError
from newfound_console.drawing import MAX_PICTURES, MAX_SIDE, Drawn, DrawSession
from newfound_console.pictures import Pictures
from newfound_console.requests import MAX_OUTLINES, MAX_POINTS, BadRequestError, outlines

TRIANGLE = [[0.1, 0.1], [0.9, 0.1], [0.5, 0.8]]


def decoded(png):
    return cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED)


class Bridge:
    """Remembers what a service was asked for."""

    def __init__(self):
        self.asked = []

    async def call(self, kind, name, request):
        self.asked.append((name, request))
        return SimpleNamespace(job_id="7")


@pytest.fixture
def session():
    made = DrawSession(Bridge(), "/segmenter", Pictures())
    made.newest = np.full((48, 64, 3), 90, np.uint8)
    return made


def test_a_mask_has_the_pixels_inside_of_any_outline():
    box = ((0.25, 0.25), (0.75, 0.25), (0.75, 0.75), (0.25, 0.75))
    corner = ((0.0, 0.0), (0.1, 0.0), (0.1, 0.1), (0.0, 0.1))
    mask = decoded(Drawn(1, b"", (40, 80), (box, corner)).mask())
    rows, columns = np.mgrid[:80, :40]
    x, y = (columns + 0.5) / 40, (rows + 0.5) / 80
    inside = (abs(x - 0.5) < 0.25) & (abs(y - 0.5) < 0.25) | (x < 0.1) & (y < 0.1)
    assert set(np.unique(mask)) == {0, 1}
    edge = cv2.morphologyEx(inside.astype(np.uint8), cv2.MORPH_GRADIENT, np.ones((3, 3)))
    assert (mask == inside)[edge == 0].all(), "but for pixels on the edge"
    assert not decoded(Drawn(1, b"", (40, 80)).mask()).any()


def test_pictures_are_kept_with_what_was_drawn_and_sent_with_masks_of_their_size(session):
    shown, empty = session.take(), None
    session.keep(shown["id"], outlines({"o": [TRIANGLE]}, "o"))
    empty = session.take()
    session.keep(empty["id"], [])
    assert session.report()["shown"] == 1
    assert asyncio.run(session.learn("cable")) == "7"
    ((name, request),) = session._bridge.asked
    assert (name, request.label) == ("/segmenter/add_segment_class", "cable")
    masks = [decoded(bytes(mask.data)) for mask in request.masks]
    assert [mask.shape for mask in masks] == [(48, 64)] * 2
    assert [bool(mask.any()) for mask in masks] == [True, False]
    assert len(session.report()["pictures"]) == 2, "it may be rejected, and need some more"
    session.remove(empty["id"])
    session.remove(99)
    assert [each["id"] for each in session.report()["pictures"]] == [shown["id"]]
    session.clear()
    assert session.report()["pictures"] == []


def test_large_pictures_are_made_smaller(session):
    session.newest = np.zeros((1080, 1920, 3), np.uint8)
    taken = session.take()
    assert (taken["width"], taken["height"]) == (MAX_SIDE, MAX_SIDE * 9 // 16)


def test_without_a_camera_with_another_picture_or_with_too_many_the_reason_is_said(session):
    with pytest.raises(CallError, match="take it again"):
        session.keep(5, [])
    for _ in range(MAX_PICTURES):
        session.keep(session.take()["id"], [])
    with pytest.raises(CallError, match="as many as it can take"):
        session.keep(session.take()["id"], [])
    session.newest = None
    with pytest.raises(CallError, match="no picture yet"):
        session.take()


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "0,0 1,1",
        {"0": TRIANGLE},
        [TRIANGLE] * (MAX_OUTLINES + 1),
        [TRIANGLE[:2]],
        [[[0.5, 0.5]] * (MAX_POINTS + 1)],
        [[*TRIANGLE, [0.5]]],
        [[*TRIANGLE, [0.5, 1.5]]],
        [[*TRIANGLE, [0.5, -0.1]]],
        [[*TRIANGLE, [0.5, float("nan")]]],
        [[*TRIANGLE, [0.5, float("inf")]]],
        [[*TRIANGLE, [True, False]]],
        [[*TRIANGLE, ["0", "0"]]],
        [5],
    ],
)
def test_other_outlines_are_refused(wrong):
    with pytest.raises(BadRequestError, match="outline"):
        outlines({"o": wrong}, "o")
