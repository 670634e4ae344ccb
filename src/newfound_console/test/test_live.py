# SPDX-License-Identifier: Apache-2.0
import math

import cv2
import numpy as np
import pytest

from newfound_console.live import WAITING, LiveFeed, box_of, number, small_jpeg
from newfound_msgs import msg

RGB = np.zeros((48, 64, 3), np.uint8)


@pytest.fixture
def feed():
    """A feed without subscriptions, and what it has sent."""
    sent = []
    made = LiveFeed(None, lambda: None, None, lambda data, jpeg: sent.append((data, jpeg)))
    return made, sent


def detections(seconds, *labels):
    message = msg.OpenWorldDetections()
    message.header.stamp.sec = int(seconds)
    message.header.stamp.nanosec = round(seconds % 1 * 1e9)
    message.detections = [msg.OpenWorldDetection(label=label, kind=1) for label in labels]
    return message


def show(feed, *moments):
    for moment in moments:
        feed._on_image(round(moment * 1e9), f"{moment}".encode(), RGB)


def test_detections_are_sent_with_the_image_nearest_to_them_in_time(feed):
    feed, sent = feed
    feed._on_detections(detections(1.0))
    show(feed, 2.0, 2.2, 2.4, 2.6)
    assert sent == []
    feed._on_detections(detections(2.25, "mug"))
    [(data, jpeg)] = sent
    assert jpeg == b"2.2"
    assert [box["label"] for box in data["boxes"]] == ["mug"]
    feed._on_detections(detections(2.6))
    assert [jpeg for _, jpeg in sent] == [b"2.2", b"2.6"]


def test_images_are_shown_without_a_detector_that_answers(feed):
    feed, sent = feed
    show(feed, 1.0, 2.0)
    assert [(data["answered"], jpeg) for data, jpeg in sent] == [(False, b"1.0"), (False, b"2.0")]


def test_images_that_wait_are_few(feed):
    feed, _ = feed
    feed._on_detections(detections(0.0))
    show(feed, *range(1, 100))
    assert len(feed._waiting) == WAITING


def test_views_for_teaching_come_from_images_of_the_same_moment(feed):
    feed, _ = feed
    pairs = []
    feed.on_pair = lambda rgb, found: pairs.append(found.header.stamp.sec)
    feed._on_detections(detections(0.0))
    show(feed, 1.0)
    feed._on_detections(detections(1.05))
    show(feed, 2.0)
    feed._on_detections(detections(3.0))
    assert pairs == [1]


def test_an_image_is_made_small_and_never_larger():
    decoded = cv2.imdecode(
        np.frombuffer(small_jpeg(np.zeros((480, 1280, 3), np.uint8), 640), "u1"), 1
    )
    assert decoded.shape == (240, 640, 3)
    assert cv2.imdecode(np.frombuffer(small_jpeg(RGB, 640), "u1"), 1).shape == RGB.shape


def test_numbers_that_json_does_not_have_are_left_out():
    assert number(math.inf) is None
    assert number(math.nan) is None
    found = msg.OpenWorldDetection(kind=2, score=math.nan, has_position=True)
    found.pose.position.z = 2.0
    box = box_of(found)
    assert (box["score"], box["distance"], box["known"]) == (None, 2.0, False)
