# SPDX-License-Identifier: Apache-2.0
import math
import random
import subprocess
import sys
import time

import numpy as np
import pytest

from newfound_core.detection.crops import keep_best
from newfound_core.detection.unknown_object import UnknownObject
from newfound_core.detection.unknown_store import UnknownStore
from newfound_core.errors import DataError


def unknown(name="u1", crops=2, **changes):
    views = ()
    for frame in range(crops):
        pixels = np.full((20, 20, 3), 40 * frame, np.uint8)
        views = keep_best(views, pixels, 1.0 - frame / 10, frame, count=crops, gap=1)
    values = {
        "state": "waiting", "sightings": 3, "first_seen": 1, "last_seen": 2, "seen_at": 5.0,
        "frame_id": "camera", "box": (1.0, 2.0, 3.0, 4.0), "crops": views, "nearest_label": "",
        "distance": math.inf, "limit": math.inf,
    }  # fmt: skip
    return UnknownObject(name, **values | changes)


@pytest.fixture
def store(tmp_path):
    return UnknownStore(tmp_path / "unknowns")


def test_an_entry_comes_back_as_it_was_saved(store):
    saved = unknown(nearest_label="Tasse ☕", label="vase", state="learning")
    store.save(unknown())
    store.save(saved)
    ((loaded,), complaints) = store.load()
    assert complaints == []
    assert [c.image for c in loaded.crops] == [c.image for c in saved.crops]
    assert (loaded.label, loaded.box, loaded.distance) == ("vase", saved.box, math.inf)


def test_a_removed_entry_is_gone(store):
    store.save(unknown())
    store.remove("u1")
    store.remove("u1")
    assert store.load() == ([], [])


@pytest.mark.parametrize("name", ["", "../u1", "a/b", "u" * 41, "U1\n"])
def test_an_id_is_never_a_path(store, name):
    with pytest.raises(DataError, match="not an id"):
        store.save(unknown(name))


@pytest.mark.parametrize("damage", ["crop", "crop missing", "json", "moved", "empty"])
def test_a_damaged_entry_is_reported_and_the_others_are_kept(store, damage):
    store.save(unknown("u1"))
    store.save(unknown("u2"))
    place = store.folder / "u1"
    if damage == "crop":
        (place / "01.jpg").write_bytes(b"not an image")
    elif damage == "crop missing":
        (place / "00.jpg").unlink()
    elif damage == "json":
        (place / "unknown.json").write_text("{")
    elif damage == "moved":
        place = place.rename(store.folder / "u3")
    else:
        for file in place.iterdir():
            file.unlink()
    entries, complaints = store.load()
    assert [entry.id for entry in entries] == ["u2"]
    assert place.name in complaints[0]
    assert store.load()[1] == []


SAVE = """
import sys
from pathlib import Path
from newfound_core.detection.unknown_store import UnknownStore
store = UnknownStore(Path(sys.argv[1]))
(entry,), _ = store.load()
print("ready", flush=True)
while True:
    store.save(entry)
"""


def test_killed_while_saving_the_entry_is_whole(store):
    store.save(unknown(crops=8))
    for seed in range(3):
        command = [sys.executable, "-c", SAVE, str(store.folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            time.sleep(random.Random(seed).uniform(0, 0.1))
            child.kill()
        entries, complaints = UnknownStore(store.folder).load()
        assert (len(entries), len(entries[0].crops), complaints) == (1, 8, [])


FILL = """
import resource, sys
from dataclasses import replace
from pathlib import Path
from newfound_core.detection.unknown_store import UnknownStore
store = UnknownStore(Path(sys.argv[1]))
(entry,), _ = store.load()
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # the kernel refuses as a full disk does
try:
    store.save(replace(entry, sightings=99))
except OSError as error:
    print(error.strerror)
"""


def test_on_a_full_disk_the_entry_stays_as_it_was(store):
    store.save(unknown(crops=3))
    (before,), _ = store.load()
    command = [sys.executable, "-c", FILL, str(store.folder)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "too large" in said
    entries, complaints = UnknownStore(store.folder).load()
    assert ([e.sightings for e in entries], complaints) == ([before.sightings], [])
    assert [p.name for p in store.folder.iterdir()] == [before.id]
