# SPDX-License-Identifier: Apache-2.0
import math
import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest

from newfound_core.detection.crops import keep_best
from newfound_core.detection.unknown_objects import (
    UnknownFiles,
    UnknownObject,
    UnknownState,
    embed_unknowns,
    label_unknowns,
)
from newfound_core.errors import DataError


def unknown(name="u1", crops=2, **changes):
    views = ()
    for frame in range(crops):
        pixels = np.full((20, 20, 3), 40 * frame, np.uint8)
        views = keep_best(views, pixels, 1.0 - frame / 10, frame, count=crops, gap=1)
    values = {
        "state": "waiting", "sightings": 3, "first_seen": 1, "last_seen": 2, "seen_at": 5.0,
        "frame_id": "camera", "box": (1.0, 2.0, 3.0, 4.0), "crops": views, "nearest_label": "",
        "distance": math.inf, "rejection_threshold": math.inf,
    }  # fmt: skip
    return UnknownObject(name, **values | changes)


@pytest.fixture
def store(tmp_path):
    return UnknownFiles(tmp_path / "unknowns")


def test_an_entry_comes_back_as_it_was_saved(store):
    saved = unknown(nearest_label="Tasse ☕", label="vase", state="learning")
    store.save(unknown())
    store.save(saved)
    ((loaded,), warnings) = store.load()
    assert warnings == []
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


def damaged(store, damage):
    """Two entries, one of which cannot be read; its folder."""
    store.save(unknown("u1"))
    store.save(unknown("u2"))
    place = store.folder / "u1"
    if damage == "json":
        (place / "unknown.json").write_text("{")
    elif damage == "newer format":
        text = (place / "unknown.json").read_text()
        (place / "unknown.json").write_text(text.replace('"format": 2', '"format": 3'))
    elif damage == "moved":
        place = place.rename(store.folder / "u3")
    elif damage == "no json":
        (place / "unknown.json").unlink()
    elif damage == "not readable now":
        (place / "00.jpg").unlink()
        (place / "00.jpg").mkdir()  # reading it is an OSError, even for root
    else:
        for crop in place.glob("*.jpg"):
            crop.write_bytes(b"not an image")
    return place


DAMAGES = ["json", "newer format", "moved", "no json", "not readable now", "all crops"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_entry_that_cannot_be_read_is_reported_and_left_as_it_is(store, damage):
    place = damaged(store, damage)
    before = sorted(path.name for path in place.iterdir())
    for _ in range(2):
        entries, (warning,) = store.load()
        assert [entry.id for entry in entries] == ["u2"]
        assert place.name in warning
        assert sorted(path.name for path in place.iterdir()) == before


@pytest.mark.parametrize("damage", ["damaged", "empty", "missing"])
def test_of_an_entry_with_a_damaged_crop_the_other_crops_are_kept(store, damage):
    store.save(unknown(crops=3))
    crop = store.folder / "u1" / "01.jpg"
    if damage == "missing":
        crop.unlink()
    else:
        crop.write_bytes(b"not an image" if damage == "damaged" else b"")
    (entry,), (warning,) = store.load()
    assert [round(c.quality, 1) for c in entry.crops] == [1.0, 0.8]
    assert "u1" in warning
    assert "01.jpg" in warning


def test_what_cannot_be_read_expires_by_age(store):
    place = damaged(store, "json")
    store.load()
    store.expire_unreadable(10, time.time() - 60)
    assert place.exists()
    os.utime(place, (0, time.time() - 100))
    store.expire_unreadable(10, time.time() - 60)
    assert [p.name for p in store.folder.iterdir()] == ["u2"]


def test_what_cannot_be_read_expires_by_number_and_the_oldest_goes_first(store):
    for age, name in enumerate(["u3", "u1", "u2"]):
        store.save(unknown(name))
        (store.folder / name / "unknown.json").write_text("{")
        os.utime(store.folder / name, (0, 1000 - age))
    store.load()
    store.expire_unreadable(2, 0.0)
    assert sorted(p.name for p in store.folder.iterdir()) == ["u1", "u3"]


SAVE = """
import sys
from pathlib import Path
from newfound_core.detection.unknown_objects import UnknownFiles
store = UnknownFiles(Path(sys.argv[1]))
(entry,), _ = store.load()
print("ready", flush=True)
while True:
    store.save(entry)
"""


def test_killed_while_saving_the_entry_is_whole(store):
    store.save(unknown(crops=8))
    for seed in range(2):
        command = [sys.executable, "-c", SAVE, str(store.folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            time.sleep(random.Random(seed).uniform(0, 0.1))
            child.kill()
        entries, warnings = UnknownFiles(store.folder).load()
        assert (len(entries), len(entries[0].crops), warnings) == (1, 8, [])


FILL = """
import resource, sys
from dataclasses import replace
from pathlib import Path
from newfound_core.detection.unknown_objects import UnknownFiles
store = UnknownFiles(Path(sys.argv[1]))
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
    entries, warnings = UnknownFiles(store.folder).load()
    assert ([e.sightings for e in entries], warnings) == ([before.sightings], [])
    assert [p.name for p in store.folder.iterdir()] == [before.id]


def grey_entry(name, *greys):
    """An unknown object with a crop of each grey, best first."""
    crops = ()
    for frame, grey in enumerate(greys):
        pixels = np.full((20, 20, 3), grey, np.uint8)
        crops = keep_best(crops, pixels, 1.0 - frame / 10, frame, count=9, gap=1)
    box = (1.0, 2.0, 3.0, 4.0)
    return UnknownObject(
        name, UnknownState.WAITING, 3, 1, 2, 5.0, "camera", box, crops, "", math.inf, math.inf
    )


def brightness(images):
    return ["bright" if image.mean() > 128 else "" for image in images]


def test_an_entry_has_the_label_that_all_of_its_best_crops_have():
    entries = [
        grey_entry("u1", 200, 201, 202, 0),
        grey_entry("u2", 200, 0, 201),
        grey_entry("u3", 0, 0),
        grey_entry("u4", 200),
        grey_entry("u5"),
    ]
    assert label_unknowns(entries, brightness) == {"u1": "bright", "u4": "bright"}
    assert label_unknowns([], brightness) == {}


def test_an_entry_has_the_embedding_of_its_best_crop():
    embeddings = embed_unknowns(
        [grey_entry("u1", 200, 0), grey_entry("u2")],
        lambda images: np.stack([i.mean() for i in images]),
    )
    assert {name: round(float(row)) for name, row in embeddings.items()} == {"u1": 200}
