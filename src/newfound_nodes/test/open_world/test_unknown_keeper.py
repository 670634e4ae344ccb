# SPDX-License-Identifier: Apache-2.0
import json
import threading
import time

import numpy as np
import pytest

from newfound_core.detection.detector import Detection
from newfound_core.detection.unknowns import UnknownsConfig, View
from newfound_nodes.open_world.unknown_keeper import UnknownKeeper
from newfound_runtime.testing import eventually

DAY = 86400.0


def thing(axis=0):
    """Something unknown."""
    crop = np.random.default_rng(axis).integers(0, 255, (32, 32, 3)).astype(np.uint8)
    box, look = np.array([10, 10, 42, 42], np.float32), np.eye(8, dtype=np.float32)[axis]
    return Detection(box, 0.9, "", "mug", 0.5, 2.0, 1.0, look, crop)


@pytest.fixture
def make_keeper(tmp_path):
    keepers = []

    def make(store_every=60.0, tell=None, complain=print, **config):
        config = UnknownsConfig(**{"announce_after": 3, "max_age": 7 * DAY} | config)
        told = []
        keepers.append(UnknownKeeper(config, tell or told.append, store_every, complain))
        keepers[-1].told, keepers[-1].complaints = told, keepers[-1].open(tmp_path / "unknowns")
        return keepers[-1]

    yield make
    for keeper in keepers:
        keeper.close()


@pytest.fixture
def stored(tmp_path):
    """How often each entry on disk was seen."""

    def read():
        entries = (tmp_path / "unknowns").glob("u*/unknown.json")
        return {e.parent.name: json.loads(e.read_text())["sightings"] for e in entries}

    return read


def show(keeper, frames, track=1, axis=0):
    for number in range(frames):
        ids = keeper.see(View(number, "camera", 64, 48), [thing(axis)], [track], {track})
    return ids[0]


def test_an_orderly_stop_stores_what_was_seen_since_the_last_report(make_keeper):
    keeper = make_keeper(crop_gap=1)
    unknown_id = show(keeper, 11)  # reported at 3 and 6
    assert [entry.sightings for entry in keeper.told] == [3, 6]
    entry = keeper.get(unknown_id)
    keeper.close()
    stored = make_keeper().get(unknown_id)
    assert stored.sightings == 11
    assert [c.image for c in stored.crops] == [c.image for c in entry.crops]


def test_a_thing_seen_yesterday_does_not_expire_after_a_restart(make_keeper, monkeypatch):
    keeper, start = make_keeper(), time.time()
    unknown_id = show(keeper, 6)
    monkeypatch.setattr(time, "time", lambda: start + 6 * DAY)
    show(keeper, 2)
    keeper.close()
    monkeypatch.setattr(time, "time", lambda: start + 8 * DAY)
    later = make_keeper()
    later.tidy()
    assert [entry.id for entry in later.all()] == [unknown_id]
    monkeypatch.setattr(time, "time", lambda: start + 14 * DAY)
    later.tidy()
    assert later.all() == []


def test_changes_are_stored_now_and_then_and_not_with_each_frame(make_keeper, stored):
    often = make_keeper(store_every=0.0)
    unknown_id = show(often, 5)
    often.tidy()
    eventually(lambda: stored().get(unknown_id) == 5)
    often.close()
    seldom = make_keeper(store_every=3600.0)
    seldom.use_looks({unknown_id: thing().look})
    assert show(seldom, 4) == unknown_id  # two of them before it was recognised
    seldom.tidy()
    assert stored() == {unknown_id: 5}


def test_what_could_not_be_stored_is_stored_later(make_keeper, stored, tmp_path):
    complaints = []
    keeper = make_keeper(store_every=0.0, complain=complaints.append)
    folder, away = tmp_path / "unknowns", tmp_path / "away"
    folder.rename(away)
    folder.write_text("a file where the folder was: the disk refuses")
    unknown_id = show(keeper, 3)
    eventually(lambda: complaints)
    assert unknown_id in complaints[0]
    assert keeper.trouble().startswith("1 unknown objects are not stored: ")
    folder.unlink()
    away.rename(folder)

    def there():
        keeper.tidy()
        return unknown_id in stored()

    eventually(there)
    eventually(lambda: keeper.trouble() == "")


def test_an_expired_entry_is_removed_from_the_disk(make_keeper, stored):
    keeper = make_keeper(max_unknowns=1)
    show(keeper, 3)
    second = show(keeper, 3, track=2, axis=1)
    assert keeper.told[-1].state == "expired"
    keeper.close()
    assert list(stored()) == [second]


def test_of_two_changes_at_a_time_the_later_is_told_and_stored_last(make_keeper, stored):
    told, others = [], []

    def tell(entry):
        if not others:  # another thread has learned it while this one says that it waits
            others.append(threading.Thread(target=keeper.mark, args=(entry.id, "learned", "mug")))
            others[0].start()
            others[0].join(0.5)
        told.append(entry.state)

    keeper = make_keeper(tell=tell)
    show(keeper, 3)
    others[0].join()
    keeper.close()
    assert told == ["waiting", "learned"]
    assert stored() == {}
