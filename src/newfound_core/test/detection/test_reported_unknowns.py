# SPDX-License-Identifier: Apache-2.0
"""Two cameras, one store: what the second one sees is asked about once."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from newfound_core.detection.crops import Crop
from newfound_core.detection.reported_unknowns import ReportedUnknowns
from newfound_core.detection.unknown_objects import UnknownObject, UnknownState
from newfound_core.detection.unknown_store import UnknownsConfig, UnknownStore

FRONT_ON, SIDE_ON, OTHER = np.eye(3, dtype=np.float32)
SIDE_ON = (0.75 * FRONT_ON + 0.66 * SIDE_ON).astype(np.float32)
SIDE_ON /= np.linalg.norm(SIDE_ON)


def jpeg(value):
    return cv2.imencode(".jpg", np.full((8, 8, 3), value, np.uint8))[1].tobytes()


def seen(own_id="a", sightings=5, *, value=0, position=None, **changes):
    """What a camera reports."""
    entry = UnknownObject(
        id=own_id,
        state=UnknownState.WAITING,
        sightings=sightings,
        first_seen=10,
        last_seen=20,
        seen_at=1.0,
        frame_id="rear",
        box=(0, 0, 10, 10),
        crops=(Crop(jpeg(value), 0.5, 7),),
        nearest_label="",
        distance=1.0,
        rejection_threshold=0.5,
    )
    if position is not None:
        entry = replace(entry, position_frame="map", position=position)
    return replace(entry, **changes)


class Owner:
    """A store, what it publishes, and reports to it."""

    def __init__(self):
        self.published = []
        self.unknown_changed, self.storage_failed = self.published.append, print
        self.store = UnknownStore(UnknownsConfig(max_age=1e12), self)
        self.reported = ReportedUnknowns(self.store)

    def take(self, name, entry, embedding=FRONT_ON, run="1"):
        return self.reported.take(name, run, entry, lambda crop: embedding)


@pytest.fixture
def owner():
    found = Owner()
    yield found
    found.store.close()


def test_what_two_cameras_see_alike_is_one_object_with_the_views_of_both(owner):
    one = owner.take("rear", seen("a", 5))
    other = owner.take("left", seen("x", 3, value=90))
    assert one.id == other.id
    assert (other.sightings, len(other.crops)) == (8, 2)
    assert len(owner.store.all()) == 1
    assert owner.published[0].id == one.id


def test_a_report_again_adds_only_what_is_new(owner):
    owner.take("rear", seen("a", 5))
    again = owner.take("rear", seen("a", 8), SIDE_ON)
    assert (again.sightings, len(again.crops)) == (8, 1)
    assert [entry.sightings for entry in owner.published] == [5]
    owner.take("rear", seen("a", 12))
    assert [entry.sightings for entry in owner.published] == [5, 12]


def test_what_one_camera_tells_apart_is_two_objects_until_it_finds_them_to_be_one(owner):
    one, two = owner.take("rear", seen("a")), owner.take("rear", seen("b"))
    assert one.id != two.id
    merged = owner.take("rear", seen("b", state=UnknownState.MERGED, merged_into="a"))
    assert merged.id == one.id
    assert [entry.sightings for entry in owner.store.all()] == [10]


def test_views_that_differ_are_one_object_where_both_are_at_one_place_at_one_time(owner):
    place = (1.0, 2.0, 0.5)
    one = owner.take("rear", seen("a", position=place))
    near = tuple(value + 0.015 for value in place)
    assert owner.take("left", seen("x", position=near), OTHER).id == one.id
    far = tuple(value + 0.2 for value in place)
    assert owner.take("top", seen("y", position=far), OTHER).id != one.id
    later = seen("z", position=place, last_seen=60 * 10**9)
    assert owner.take("low", later, OTHER).id != one.id


def test_a_camera_that_starts_again_reports_under_new_ids(owner):
    one = owner.take("rear", seen("a"))
    again = owner.take("rear", seen("b"), run="2")
    assert again.id == one.id


def test_what_was_dismissed_stays_so_and_is_not_published(owner):
    one = owner.take("rear", seen("a"))
    owner.store.mark(one.id, UnknownState.DISMISSED)
    count = len(owner.published)
    assert owner.take("left", seen("x", 100)).state == UnknownState.DISMISSED
    assert len(owner.published) == count


def test_what_the_camera_lets_go_stays_with_the_owner(owner):
    one = owner.take("rear", seen("a"))
    assert owner.take("rear", seen("a", state=UnknownState.EXPIRED)) is None
    assert [entry.id for entry in owner.store.all()] == [one.id]
    assert owner.take("rear", seen("b")).id == one.id


def test_what_was_learned_meanwhile_is_asked_about_again_if_it_is_still_unknown(owner):
    one = owner.take("rear", seen("a"))
    owner.store.mark(one.id, UnknownState.LEARNED, "mug")
    assert owner.take("rear", seen("a", 40)).id != one.id
