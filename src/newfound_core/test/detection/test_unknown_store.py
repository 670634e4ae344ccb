# SPDX-License-Identifier: Apache-2.0
import json
import threading
import time

import numpy as np
import pytest

from newfound_core.detection.detector import Detection
from newfound_core.detection.tracking import Tracker
from newfound_core.detection.unknown_objects import UnknownState, embed_unknowns
from newfound_core.detection.unknown_store import UnknownsConfig, UnknownStore, View
from newfound_core.errors import ConfigError

APART = (100, 100, 140, 140)


class Events:
    """Collects what the store publishes."""

    def __init__(self):
        self.published, self.errors = [], []
        self.unknown_changed, self.storage_failed = self.published.append, self.errors.append


class World:
    """A tracker and the store, fed frame by frame."""

    def __init__(self, **config):
        self.events = Events()
        self.store = UnknownStore(UnknownsConfig(**{"announce_after": 3} | config), self.events)
        self.tracker = Tracker()
        self.stamp = 0

    def show(self, *detections, frames=1):
        """What is published because of these frames."""
        before = len(self.events.published)
        for _ in range(frames):
            self.stamp += 100
            empty = np.zeros((0, 8)), np.zeros((0, 4))
            embeddings = np.stack([d.embedding for d in detections]) if detections else empty[0]
            boxes = np.stack([d.box for d in detections]) if detections else empty[1]
            tracks = self.tracker.update(boxes.astype(np.float32), embeddings.astype(np.float32))
            view = View(self.stamp, "camera", 640, 480)
            self.ids = self.store.update(view, detections, tracks.tolist(), self.tracker.tracks)
        return self.events.published[before:]

    def tick(self):
        """What is published because time has passed."""
        before = len(self.events.published)
        self.store.tick()
        return self.events.published[before:]


def test_an_unknown_is_announced_once_it_was_seen_often_enough(make_detection):
    world = World()
    assert world.show(make_detection(), frames=2) == []
    assert world.ids[0] == ""
    (report,) = world.show(make_detection())
    assert (report.state, report.sightings, report.nearest_label) == ("waiting", 3, "mug")
    assert (report.first_seen, report.last_seen) == (100, 300)
    assert report.crops
    assert world.ids[0] == report.id


def test_over_many_frames_it_is_one_unknown_published_ever_more_rarely(make_detection):
    world = World()
    reports = [
        report
        for step in range(500)
        for report in world.show(
            make_detection(noise=0.05, seed=step, box=(step, 0, step + 30, 30))
        )
    ]
    assert len({report.id for report in reports}) == len(world.store.all()) == 1
    assert [report.sightings for report in reports] == [3, 6, 12, 24, 48, 96, 192, 384]
    assert world.store.all()[0].sightings == 500


def test_a_thing_that_is_known_most_of_the_time_is_no_unknown(make_detection):
    world = World()
    for step in range(40):
        assert world.show(make_detection(label="" if step % 3 == 1 else "mug")) == []


def test_it_is_recognised_when_it_comes_back_much_later(make_detection):
    world = World()
    (first,) = world.show(make_detection(noise=0.05), frames=3)
    world.show(frames=100)
    world.show(make_detection(noise=0.05, seed=7, box=APART), frames=5)
    assert len(world.store.all()) == 1
    assert world.ids[0] == first.id


def test_two_things_are_two_unknowns_even_if_they_look_the_same(make_detection):
    world = World()
    reports = world.show(make_detection(), make_detection(box=APART), frames=3)
    assert len({report.id for report in reports}) == 2


def test_the_number_is_limited_and_the_longest_unseen_expires(make_detection):
    world = World(max_unknowns=2)
    ids = []
    for axis in range(3):
        reports = world.show(make_detection(axis), frames=3)
        ids.append(reports[0].id)
    assert (reports[-1].id, reports[-1].state) == (ids[0], "expired")
    assert [entry.id for entry in world.store.all()] == ids[1:]


def test_what_is_being_learned_does_not_expire(make_detection, monkeypatch):
    world = World(max_unknowns=1, max_age=10)
    (report,) = world.show(make_detection(0), frames=3)
    world.store.mark(report.id, UnknownState.LEARNING, "vase")
    world.show(make_detection(1), frames=3)
    assert world.store.get(report.id).label == "vase"
    monkeypatch.setattr(time, "time", lambda: 1e12)
    assert world.tick() == []


def test_an_unknown_not_seen_for_long_expires(make_detection, monkeypatch):
    world = World(max_age=10)
    (report,) = world.show(make_detection(), frames=3)
    assert world.tick() == []
    later = time.time() + 11
    monkeypatch.setattr(time, "time", lambda: later)
    (expired,) = world.tick()
    assert (expired.id, expired.state, len(world.store.all())) == (report.id, "expired", 0)


def test_a_dismissed_thing_is_not_announced_again(make_detection):
    world = World()
    (report,) = world.show(make_detection(), frames=3)
    world.store.mark(report.id, UnknownState.DISMISSED)
    world.show(frames=100)
    assert world.show(make_detection(), frames=50) == []
    assert len(world.store.all()) == 1


def test_a_learned_thing_has_no_entry_any_more(make_detection):
    world = World()
    (report,) = world.show(make_detection(), frames=3)
    world.store.mark(report.id, UnknownState.LEARNED, "vase")
    world.store.mark(report.id, UnknownState.LEARNED, "vase")  # it is gone: nothing happens
    assert [entry.state for entry in world.events.published] == ["waiting", "learned"]
    world.show(make_detection(label="vase"), frames=5)
    assert len(world.store.all()) == 0


def test_after_a_restart_and_with_another_network_it_is_the_same_unknown(make_detection, tmp_path):
    world = World()
    world.store.open(tmp_path)
    (report,) = world.show(make_detection(), frames=3)
    world.store.close()
    later = World()
    later.store.open(tmp_path)

    def embed(images):  # another network: to it this thing is along axis 5
        return np.repeat(np.eye(8, dtype=np.float32)[5:6], len(images), 0)

    later.store.use_embeddings(embed_unknowns([report], embed))
    later.show(make_detection(5), frames=4)
    assert [entry.id for entry in later.store.all()] == [report.id]
    assert later.store.get(report.id).sightings == 5


def test_what_other_knowledge_knew_does_not_delay_an_announcement(make_detection):
    world = World()
    world.show(make_detection(label="vase"), frames=50)
    world.store.use_embeddings({}, same_network=True)  # the vase was forgotten
    (report,) = world.show(make_detection(), frames=3)
    assert report.state == "waiting"


def test_what_other_knowledge_did_not_know_has_its_label_at_once(make_detection):
    world = World()
    world.show(make_detection(), frames=50)
    world.store.use_embeddings({}, same_network=True)
    world.show(make_detection(label="vase"))
    assert world.ids[0] == ""


def test_an_entry_that_was_not_embedded_again_is_still_recognised(make_detection):
    world = World()
    (first,) = world.show(make_detection(0), frames=3)
    world.store.use_embeddings({}, same_network=True)
    world.show(frames=100)
    world.show(make_detection(0, box=APART), frames=3)
    assert [entry.id for entry in world.store.all()] == [first.id]
    world.store.use_embeddings({})  # to another network it is along axis 5
    world.tracker.forget_embeddings()
    world.show(make_detection(5, box=APART))
    world.show(frames=100)
    world.show(make_detection(5), frames=3)
    assert [entry.id for entry in world.store.all()] == [first.id]


def test_the_best_crops_are_kept(make_detection):
    world = World(crops=2, crop_gap=1)
    for step in range(12):
        world.show(make_detection(sharp=step in (4, 9), seed=step))
    (entry,) = world.store.all()
    assert [crop.frame for crop in sorted(entry.crops, key=lambda c: c.frame)] == [5, 10]


@pytest.mark.parametrize(
    "wrong", [{"announce_after": 0}, {"same_similarity": 0}, {"max_age": float("nan")}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        UnknownsConfig(**wrong)


DAY, REAL_SLEEP = 86400.0, time.sleep


def eventually(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        REAL_SLEEP(0.01)


def thing(axis=0):
    """Something unknown."""
    crop = np.random.default_rng(axis).integers(0, 255, (32, 32, 3)).astype(np.uint8)
    box, row = np.array([10, 10, 42, 42], np.float32), np.eye(8, dtype=np.float32)[axis]
    return Detection(box, 0.9, "", "mug", 0.5, 2.0, 1.0, row, crop)


@pytest.fixture
def make_store(tmp_path):
    stores = []

    def make(**config):
        events = Events()
        config = UnknownsConfig(**{"announce_after": 3, "max_age": 7 * DAY} | config)
        stores.append(UnknownStore(config, events))
        stores[-1].events = events
        stores[-1].open(tmp_path / "unknowns")
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def stored(tmp_path):
    """How often each entry on disk was seen."""

    def read():
        entries = (tmp_path / "unknowns").glob("u*/unknown.json")
        return {e.parent.name: json.loads(e.read_text())["sightings"] for e in entries}

    return read


def show(store, frames, track=1, axis=0):
    for number in range(frames):
        ids = store.update(View(number, "camera", 64, 48), [thing(axis)], [track], {track})
    return ids[0]


def test_an_orderly_stop_stores_what_was_seen_since_the_last_report(make_store):
    store = make_store(crop_gap=1)
    unknown_id = show(store, 11)  # reported at 3 and 6
    assert [entry.sightings for entry in store.events.published] == [3, 6]
    entry = store.get(unknown_id)
    store.close()
    again = make_store().get(unknown_id)
    assert again.sightings == 11
    assert [c.image for c in again.crops] == [c.image for c in entry.crops]


def test_a_thing_seen_yesterday_does_not_expire_after_a_restart(make_store, monkeypatch):
    store, start = make_store(), time.time()
    unknown_id = show(store, 6)
    monkeypatch.setattr(time, "time", lambda: start + 6 * DAY)
    show(store, 2)
    store.close()
    monkeypatch.setattr(time, "time", lambda: start + 8 * DAY)
    later = make_store()
    later.tick()
    assert [entry.id for entry in later.all()] == [unknown_id]
    monkeypatch.setattr(time, "time", lambda: start + 14 * DAY)
    later.tick()
    assert later.all() == []


def test_changes_are_stored_now_and_then_and_not_with_each_frame(make_store, stored):
    often = make_store(store_every=0.0)
    unknown_id = show(often, 5)
    often.tick()
    eventually(lambda: stored().get(unknown_id) == 5)
    often.close()
    seldom = make_store(store_every=3600.0)
    seldom.use_embeddings({unknown_id: thing().embedding})
    assert show(seldom, 4) == unknown_id  # two of them before it was recognised
    seldom.tick()
    assert stored() == {unknown_id: 5}


def test_what_could_not_be_stored_is_stored_later(make_store, stored, tmp_path):
    store = make_store(store_every=0.0)
    errors = store.events.errors
    folder, away = tmp_path / "unknowns", tmp_path / "away"
    folder.rename(away)
    folder.write_text("a file where the folder was: the disk refuses")
    unknown_id = show(store, 3)
    eventually(lambda: errors)
    assert unknown_id in errors[0]
    assert store.problem().startswith("1 unknown objects are not stored: ")
    folder.unlink()
    away.rename(folder)

    def there():
        store.tick()
        return unknown_id in stored()

    eventually(there)
    eventually(lambda: store.problem() == "")


def test_an_expired_entry_is_removed_from_the_disk(make_store, stored):
    store = make_store(max_unknowns=1)
    show(store, 3)
    second = show(store, 3, track=2, axis=1)
    assert store.events.published[-1].state == "expired"
    store.close()
    assert list(stored()) == [second]


def test_of_two_changes_at_a_time_the_later_is_published_and_stored_last(make_store, stored):
    published, others = [], []

    def publish(entry):
        if not others:  # another thread has learned it while this one says that it waits
            mark = (entry.id, UnknownState.LEARNED, "mug")
            others.append(threading.Thread(target=store.mark, args=mark))
            others[0].start()
            others[0].join(0.5)
        published.append(entry.state)

    store = make_store()
    store.events.unknown_changed = publish
    show(store, 3)
    others[0].join()
    store.close()
    assert published == ["waiting", "learned"]
    assert stored() == {}
