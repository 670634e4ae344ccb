# SPDX-License-Identifier: Apache-2.0
import json
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from newfound_core.detection.detector import Detection
from newfound_core.detection.same_object import View
from newfound_core.detection.tracking import Tracker
from newfound_core.detection.unknown_objects import UnknownState, embed_unknowns
from newfound_core.detection.unknown_store import UnknownsConfig, UnknownStore
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
            make_detection(noise=0.05, seed=step, box=(step + 5, 5, step + 35, 35))
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


def between(axis, other, cosine):
    """A direction in the plane of two axes, at this cosine from the first."""
    eye = np.eye(8, dtype=np.float32)
    return cosine * eye[axis] + np.sqrt(1 - cosine**2) * eye[other]


def like(detection, embedding, **changes):
    return replace(detection, embedding=embedding.astype(np.float32), **changes)


def test_a_box_that_jumps_to_a_part_of_a_thing_is_still_that_thing(make_detection):
    world = World()
    (first,) = world.show(make_detection(box=(100, 100, 200, 200)), frames=3)
    part = like(make_detection(box=(150, 150, 190, 195)), between(0, 1, 0.75))
    world.show(part, frames=6)
    assert world.ids[0] == first.id
    assert len(world.store.all()) == 1


def test_at_another_place_or_much_later_the_same_likeness_is_not_enough(make_detection):
    elsewhere, later = World(), World()
    for world in (elsewhere, later):
        world.show(make_detection(box=(100, 100, 200, 200)), frames=3)
    other = like(make_detection(), between(0, 1, 0.75))
    elsewhere.show(replace(other, box=np.array([300, 100, 400, 200], np.float32)), frames=6)
    later.show(frames=40)  # the track ends
    later.stamp += int(60e9)
    later.show(replace(other, box=np.array([150, 150, 190, 195], np.float32)), frames=6)
    assert len(elsewhere.store.all()) == len(later.store.all()) == 2


def turn_back(world, make_detection):
    """What is published while the thing turns, until it looks as it did at first."""
    return [
        report
        for step in range(60)
        for report in world.show(
            like(make_detection(0, APART, seed=step), between(0, 1, min(1.0, 0.5 + step * 0.01)))
        )
    ]


def test_entries_that_turn_out_to_be_one_object_are_merged(make_detection):
    world = World(crop_gap=1, crops=100)
    (first,) = world.show(make_detection(0, (100, 100, 200, 200)), frames=3)
    world.show(frames=40)
    (second,) = world.show(like(make_detection(0, APART), between(0, 1, 0.5)), frames=3)
    before = [world.store.get(entry.id) for entry in (first, second)]
    reports = turn_back(world, make_detection)
    merged = next(r for r in reports if r.state == "merged")
    assert (merged.id, merged.merged_into) == (second.id, first.id)
    (entry,) = world.store.all()
    assert entry.id == world.ids[0] == first.id
    assert entry.sightings == 3 + 3 + 60
    assert entry.first_seen == first.first_seen
    assert {c.image for c in before[0].crops + before[1].crops} <= {c.image for c in entry.crops}
    assert world.store.get(second.id).id == first.id, "requests with the old id reach it"


def test_a_merged_entry_is_removed_from_the_disk_and_the_older_one_stays(make_detection, tmp_path):
    world = World()
    world.store.open(tmp_path)
    (first,) = world.show(make_detection(0), frames=3)
    world.show(frames=40)
    world.show(like(make_detection(0, APART), between(0, 1, 0.5)), frames=3)
    turn_back(world, make_detection)
    world.store.close()
    assert [folder.name for folder in tmp_path.iterdir()] == [first.id]


def test_what_was_seen_at_once_in_two_places_is_never_merged(make_detection):
    world = World()
    world.show(make_detection(), make_detection(box=APART), frames=20)
    world.show(make_detection(box=APART), frames=50)
    assert len(world.store.all()) == 2


def test_a_track_that_was_taken_for_another_object_is_taken_apart(make_detection):
    world = World()
    (first,) = world.show(make_detection(), frames=3)
    world.show(make_detection(box=APART), frames=1)
    world.show(frames=40)
    world.show(make_detection(box=APART), frames=4)
    assert world.ids == [first.id], "it could be the same"
    world.show(make_detection(box=APART), make_detection(), frames=6)
    assert len(set(world.ids) | {first.id}) == len(world.store.all()) == 2


def test_what_is_like_a_dismissed_thing_is_not_asked_about(make_detection):
    world = World()
    (report,) = world.show(make_detection(), frames=3)
    world.store.mark(report.id, UnknownState.DISMISSED)
    published = world.show(make_detection(), make_detection(box=APART), frames=20)
    assert published == []
    assert len(world.store.all()) == 1


def test_dismissals_outlast_age_and_number(make_detection, monkeypatch):
    world = World(max_unknowns=1, max_age=10)
    (report,) = world.show(make_detection(0), frames=3)
    world.store.mark(report.id, UnknownState.DISMISSED)
    for axis in (1, 2, 3):
        world.show(make_detection(axis), frames=3)
    monkeypatch.setattr(time, "time", lambda: 1e12)
    world.store.tick()
    assert [entry.id for entry in world.store.all()] == [report.id]
    for axis in (4, 5):
        (other,) = [r for r in world.show(make_detection(axis), frames=3) if r.state == "waiting"]
        world.store.mark(other.id, UnknownState.DISMISSED)
    world.show(make_detection(6), frames=3)
    assert len(world.store.all()) == 2, "but they are limited, too"


@pytest.mark.parametrize(
    ("config", "box", "why"),
    [
        ({"min_unknown_size": 40}, (100, 100, 130, 130), "small"),
        ({"region_of_interest": (0.5, 0, 1, 1)}, (100, 100, 150, 150), "outside"),
        ({}, (0, 100, 50, 150), "cut"),
    ],
)
def test_what_is_not_worth_a_question_is_tracked_and_counted(make_detection, config, box, why):
    world = World(**config)
    assert world.show(make_detection(box=box), frames=20) == []
    assert world.store.held_back() == {why: 1}
    assert len(world.tracker.tracks) == 1
    inside = (400, 100, 450, 150)
    world.show(make_detection(box=inside), frames=3)
    assert len(world.store.all()) == 1, "until it is"
    assert world.store.held_back() == {}


def test_the_whole_image_is_not_cut_off(make_detection):
    world = World()
    assert world.show(make_detection(box=(0, 0, 640, 480)), frames=3)


def test_what_flickers_is_not_announced(make_detection):
    world = World()
    for _ in range(20):
        world.show(make_detection())
        world.show(frames=2)
    assert world.store.all() == []
    assert world.store.held_back() == {"unstable": 1}


def test_a_box_that_changes_its_shape_all_the_time_is_not_announced(make_detection):
    world = World()
    for step in range(20):
        wide = (100, 100, 200, 140) if step % 2 else (100, 100, 140, 180)
        world.show(make_detection(box=wide))
    assert world.store.all() == []


def test_a_thing_put_in_the_place_of_another_is_another(make_detection):
    world = World()
    (first,) = world.show(make_detection(0), frames=3)
    other = like(make_detection(0), between(0, 1, 0.5))  # enough for the tracker
    world.show(other, frames=10)
    assert world.ids[0] not in ("", first.id)


def test_a_frame_costs_about_the_same_with_many_entries(make_detection):
    generator = np.random.default_rng(0)
    world = World(max_unknowns=3000)
    shown = [make_detection(0, (x, 100, x + 40, 140)) for x in range(50, 550, 50)]

    def cost():
        started = time.perf_counter()
        world.show(*shown, frames=20)
        return time.perf_counter() - started

    few = min(cost() for _ in range(3))
    view, index = View(0, "camera", 640, 480), world.store._index
    (entry, *_) = world.store.all()
    for number in range(2000):
        row = generator.normal(size=8).astype(np.float32)
        world.store._objects[f"u{number}"] = replace(entry, id=f"u{number}", box=(0, 0, 9, 9))
        index.place(f"u{number}", (0, 0, 9, 9), view)
        index.follow(f"u{number}", -np.abs(row) / np.linalg.norm(row))
    assert min(cost() for _ in range(3)) < 3 * few


@pytest.mark.parametrize(
    "wrong",
    [
        {"announce_after": 0},
        {"min_unknown_size": -1},
        {"min_stability": 2},
        {"region_of_interest": (0, 0, 1)},
        {"region_of_interest": (0.5, 0, 0.5, 1)},
        {"same_place_similarity": 0},
        {"same_place_seconds": float("inf")},
        {"same_similarity": 0},
        {"max_age": float("nan")},
    ],
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


def test_an_entry_of_the_version_before_is_read(make_store, tmp_path):
    store = make_store()
    unknown_id = show(store, 3)
    store.close()
    path = tmp_path / "unknowns" / unknown_id / "unknown.json"
    values = json.loads(path.read_text())
    del values["stability"], values["merged_into"]
    path.write_text(json.dumps(values))
    entry = make_store().get(unknown_id)
    assert (entry.stability, entry.merged_into) == (1.0, "")
