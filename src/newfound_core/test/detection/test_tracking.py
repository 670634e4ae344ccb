# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.tracking import Tracker, TrackerConfig
from newfound_core.errors import ConfigError

LOOKS = np.eye(4, dtype=np.float32)


def boxes(*lefts):
    return np.array([[left, 0, left + 20, 20] for left in lefts], np.float32).reshape(-1, 4)


def test_an_object_that_moves_slowly_keeps_its_number():
    tracker = Tracker()
    seen = {int(tracker.update(boxes(3 * step), LOOKS[:1])[0]) for step in range(40)}
    assert seen == {1}


def test_two_objects_that_pass_each_other_are_told_apart_by_their_embeddings():
    tracker = Tracker()
    for step in range(21):
        numbers = tracker.update(boxes(5 * step, 100 - 5 * step), LOOKS[:2])
        assert numbers.tolist() == [1, 2]


def test_another_object_in_the_same_place_is_another_object():
    tracker = Tracker()
    assert tracker.update(boxes(0), LOOKS[:1]).tolist() == [1]
    assert tracker.update(boxes(0), LOOKS[1:2]).tolist() == [2]


def test_an_object_that_was_hidden_for_a_while_is_the_same_one():
    tracker = Tracker(TrackerConfig(lost_after=10))
    tracker.update(boxes(0), LOOKS[:1])
    for _ in range(8):
        tracker.update(boxes(), LOOKS[:0])
    assert tracker.update(boxes(300), LOOKS[:1]).tolist() == [1]
    for _ in range(10):
        tracker.update(boxes(), LOOKS[:0])
    assert tracker.tracks == set()
    assert tracker.update(boxes(300), LOOKS[:1]).tolist() == [2], "numbers are not used twice"


def test_two_equal_objects_have_two_numbers():
    tracker = Tracker()
    both = np.repeat(LOOKS[:1], 2, 0)
    for _ in range(3):
        assert tracker.update(boxes(0, 100), both).tolist() == [1, 2]


def test_the_number_of_tracks_is_limited_and_the_longest_unseen_go_first():
    tracker = Tracker(TrackerConfig(max_tracks=3))
    generator = np.random.default_rng(0)
    for step in range(10):
        embeddings = generator.normal(size=(1, 64)).astype(np.float32)
        tracker.update(boxes(100 * step), embeddings / np.linalg.norm(embeddings))
    assert tracker.tracks == {8, 9, 10}


def test_after_the_network_changed_places_still_count():
    tracker = Tracker()
    tracker.update(boxes(0, 100), LOOKS[:2])
    tracker.forget_embeddings()
    other = np.eye(6, dtype=np.float32)[4:]
    assert tracker.update(boxes(100, 0), other).tolist() == [2, 1]
    assert tracker.update(boxes(400, 300), other).tolist() == [2, 1], "new embeddings are used"


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ConfigError, match="min_iou"):
        TrackerConfig(min_iou=1.5)
    with pytest.raises(ConfigError, match="at least 1"):
        TrackerConfig(lost_after=0)
