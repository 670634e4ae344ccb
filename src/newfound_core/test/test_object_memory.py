# SPDX-License-Identifier: Apache-2.0
"""What is one thing, what is gone, and what is left after kills, full disks and odd clocks."""

import math
import os
import signal
import subprocess
import sys

import pytest

from newfound_core.errors import DamagedError, LockedError, StorageError
from newfound_core.object_memory import ObjectMemory, Sighting

UPRIGHT = (0.0, 0.0, 0.0, 1.0)
SECOND = 10**9


def seen(x=0.0, y=0.0, z=0.0, stamp=SECOND, error=0.01, frame="map", **facts):
    size = facts.pop("size", (0.08, 0.08, 0.1))
    return Sighting(frame, (x, y, z), UPRIGHT, size, error, stamp, **facts)


@pytest.fixture
def memory(tmp_path):
    made = ObjectMemory(tmp_path / "objects.db", max_objects=50)
    yield made
    made.close()


def everything(memory):
    return memory.latest("", 0.0, 1000)


def test_sightings_of_one_thing_are_one_object_where_they_agree(memory):
    places = [0.50, 0.52, 0.49, 0.505, 0.495]
    ids = {
        memory.see([seen(x, label="mug", stamp=n * SECOND, error=0.02)])[0]
        for n, x in enumerate(places, 1)
    }
    [mug] = memory.find("MUG", 0.5, 10)
    assert ids == {mug.id}
    assert mug.x == pytest.approx(0.5, abs=0.01)
    assert mug.error < 0.02
    assert (mug.sightings, mug.first_seen, mug.last_seen) == (5, SECOND, 5 * SECOND)
    assert mug.presence > 0.95


def test_positions_are_weighted_by_their_errors(memory):
    memory.see([seen(0.0, label="mug", error=0.10)])
    memory.see([seen(0.1, label="mug", error=0.02)])
    [mug] = everything(memory)
    before, now = 0.1**2 + 0.01**2, 0.02**2
    assert mug.x == pytest.approx(0.1 * before / (before + now))
    assert mug.error == pytest.approx(math.sqrt(before * now / (before + now)))


def test_two_things_of_a_class_are_two_in_one_frame_and_far_apart(memory):
    memory.see([seen(0.0, label="mug"), seen(0.03, label="mug")])
    memory.see([seen(1.0, label="mug")])
    assert len(memory.find("mug", 0.0, 10)) == 3


def test_an_uncertain_position_reaches_farther(memory):
    memory.see([seen(0.0, label="mug", error=0.01)])
    memory.see([seen(0.2, label="mug", error=0.1)])
    assert memory.count() == 1
    memory.see([seen(0.2, label="mug", error=0.01)])
    assert memory.count() == 2


def test_other_classes_beside_each_other_and_other_frames_are_other_things(memory):
    memory.see([seen(label="mug")])
    memory.see([seen(0.09, label="bowl")])
    memory.see([seen(label="mug", frame="camera")])
    assert memory.count() == 3


def test_what_is_in_the_same_place_is_one_thing_that_is_called_as_it_is_called_most(memory):
    for label in ("mug", "can", "mug", "", "mug", "can"):
        memory.see([seen(label=label)])
    [thing] = everything(memory)
    assert (thing.label, thing.sightings) == ("mug", 6)
    for _ in range(5):
        memory.see([seen(label="can")])  # by now it is another one
    assert everything(memory)[0].label == "can"


def test_a_rejected_view_does_not_take_the_name_away_but_many_of_them_do(memory):
    memory.see([seen(label="mug")])
    memory.see([seen()])
    assert everything(memory)[0].label == "mug"
    for _ in range(10):
        memory.see([seen()])
    assert everything(memory)[0].label == ""


def test_a_part_of_a_thing_is_that_thing_and_hardly_moves_it(memory):
    hammer = {"size": (0.3, 0.1, 0.04), "z": 0.02}
    for stamp in range(3):
        memory.see([seen(label="hammer", stamp=stamp, **hammer)])
    memory.see([seen(0.1, size=(0.1, 0.08, 0.04), z=0.02, label="mug")])
    [thing] = everything(memory)
    assert thing.label == "hammer"
    assert thing.x < 0.03
    assert thing.length > 0.25


def test_two_pieces_of_a_thing_in_one_frame_are_no_second_thing(memory):
    memory.see([seen(size=(0.3, 0.1, 0.04))])
    ids = memory.see([seen(-0.1, size=(0.1, 0.1, 0.04)), seen(0.1, size=(0.1, 0.1, 0.04))])
    assert ids == [1, 1]
    assert memory.count() == 1


def test_a_small_thing_in_the_box_of_a_large_one_is_another_if_both_are_seen(memory):
    plate, spoon = {"size": (0.2, 0.2, 0.02)}, {"size": (0.1, 0.02, 0.02)}
    for _ in range(2):
        memory.see([seen(**plate), seen(0.05, **spoon)])
    assert [each.sightings for each in everything(memory)] == [2, 2]


def test_two_unknown_objects_in_one_place_are_one_thing(memory):
    memory.see([seen(unknown_id="u1")])
    memory.see([seen(0.01, unknown_id="u2")])
    [thing] = everything(memory)
    assert (thing.unknown_id, thing.sightings) == ("u2", 2)


def test_an_unknown_thing_gets_the_label_that_its_place_or_its_id_is_learned_as(memory):
    memory.see([seen(0.0, unknown_id="u1"), seen(1.0, unknown_id="u2")])
    assert memory.rename("u1", "whisk") == 1
    [whisk] = memory.find("whisk", 0.0, 10)
    assert (whisk.unknown_id, whisk.x) == ("u1", 0.0)
    memory.see([seen(1.01, label="peeler")])
    [peeler] = memory.find("peeler", 0.0, 10)
    assert (peeler.unknown_id, peeler.sightings) == ("u2", 2)


def test_an_unknown_object_is_followed_by_its_id_wherever_it_is_put(memory):
    memory.see([seen(0.0, unknown_id="u1")])
    memory.see([seen(2.0, unknown_id="u1")])
    [thing] = everything(memory)
    assert thing.x == 2.0
    assert thing.sightings == 2


def test_unknown_objects_that_are_one_become_one(memory):
    memory.see([seen(0.0, unknown_id="u1", stamp=SECOND)])
    memory.see([seen(0.5, unknown_id="u2", stamp=5 * SECOND)])
    memory.merge_unknown("u2", "u1")
    [thing] = everything(memory)
    assert (thing.unknown_id, thing.x, thing.sightings) == ("u1", 0.5, 2)
    assert thing.first_seen == SECOND


def test_presence_falls_where_a_thing_is_missed_and_fast_where_it_is_seen_through(memory):
    memory.see([seen(0.0, label="mug"), seen(1.0, label="bowl")])
    mug, bowl = memory.find("mug", 0, 1)[0], memory.find("bowl", 0, 1)[0]
    for second in range(2, 5):
        memory.look([mug.id], [bowl.id], second * SECOND)
    gone, missed = memory.find("mug", 0, 1)[0], memory.find("bowl", 0, 1)[0]
    assert gone.presence < 0.05
    odds = 0.7 / 0.3 * (0.6 / 0.9) ** 3
    assert missed.presence == pytest.approx(odds / (1 + odds))
    assert memory.find("mug", 0.5, 10) == []
    memory.see([seen(0.0, label="mug")])
    memory.see([seen(0.0, label="mug")])
    assert memory.find("mug", 0, 1)[0].presence > 0.3


def test_frames_in_a_row_are_one_look(memory):
    [mug] = memory.see([seen(label="mug")])
    for frame in range(10):
        memory.look([], [mug], 3 * SECOND + frame * SECOND // 30)
    odds = 0.7 / 0.3 * 0.6 / 0.9
    assert memory.find("mug", 0, 1)[0].presence == pytest.approx(odds / (1 + odds))


def test_what_is_near_a_place_comes_nearest_first(memory):
    memory.see([seen(x, label=f"thing {x}") for x in (3.0, 1.0, 2.0)])
    memory.see([seen(1.0, label="elsewhere", frame="camera")])
    found = memory.near("map", (0.5, 0.0, 0.0), 2.0, 0.0, 10)
    assert [each.x for each in found] == [1.0, 2.0]
    assert [each.x for each in memory.near("map", (0.5, 0.0, 0.0), 2.0, 0.0, 1)] == [1.0]


def test_the_least_probable_things_go_when_there_are_too_many(memory):
    first = memory.see([seen(float(n), label="mug", stamp=n * SECOND) for n in range(50)])
    memory.look([first[30]], [], 99 * SECOND)
    memory.see([seen(100.0, label="mug", stamp=100 * SECOND)])
    left = {each.id for each in everything(memory)}
    assert set(first) - left == {first[30]}
    memory.see([seen(101.0, label="mug", stamp=101 * SECOND)])
    assert first[0] not in {each.id for each in everything(memory)}


ODD = ["'; DROP TABLE objects; --", "%", "_", "*", '"', "a'b", "mug ", "\U0001f600", "[a-z]"]


@pytest.mark.parametrize("label", ODD)
def test_a_label_is_found_whatever_is_in_it_and_finds_nothing_else(memory, label):
    memory.see([seen(label="mug"), seen(3.0, label=label)])
    assert [each.label for each in memory.find(label, 0.0, 10)] == [label]
    assert len(everything(memory)) == 2


@pytest.mark.parametrize("asked", ["MUG", "BÜCHSE", "bu\u0308chse", "Straße"])
def test_a_label_is_found_in_any_case_and_spelling_of_any_language(memory, asked):
    memory.see([seen(3.0 * n, label=label) for n, label in enumerate(("mug", "Büchse", "straße"))])
    assert len(memory.find(asked, 0.0, 10)) == 1


def test_a_late_camera_does_not_make_a_thing_older_but_a_clock_that_is_set_back_does(memory):
    for stamp in (1000, 999):
        memory.see([seen(stamp=stamp * SECOND, label="mug")])
    assert everything(memory)[0].last_seen == 1000 * SECOND
    memory.see([seen(stamp=10 * SECOND, label="mug")])
    (thing,) = everything(memory)
    assert (thing.first_seen, thing.last_seen) == (10 * SECOND, 10 * SECOND)
    memory.look([thing.id], [], 11 * SECOND)
    assert everything(memory)[0].presence < thing.presence


def test_a_forgotten_thing_is_gone(memory):
    [mug] = memory.see([seen(label="mug")])
    memory.set_view(mug, 3.0, b"jpeg")
    assert memory.view(mug) == b"jpeg"
    assert memory.forget(mug)
    assert not memory.forget(mug)
    assert memory.view(mug) == b""


WRITER = """
import sys
from pathlib import Path
from newfound_core.object_memory import ObjectMemory, Sighting
memory = ObjectMemory(Path(sys.argv[1]))
for n in range(10**6):
    one = Sighting("map", (float(n), 0, 0), (0, 0, 0, 1), (.1, .1, .1), .01, n, label="mug")
    memory.see([one])
    print(n, flush=True)
"""


def test_nothing_that_was_stored_is_lost_when_the_process_is_killed(tmp_path):
    path = tmp_path / "objects.db"
    stored = 0
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            told = [int(writer.stdout.readline()) for _ in range(50)]
            with pytest.raises(LockedError, match="another process"):
                ObjectMemory(path)
            os.kill(writer.pid, signal.SIGKILL)
        stored = max(stored, told[-1] + 1)
    memory = ObjectMemory(path)
    assert memory.count() >= stored
    assert memory.find("mug", 0.0, 1)
    memory.close()


def test_a_file_that_is_no_database_is_an_error_that_says_so(tmp_path):
    path = tmp_path / "objects.db"
    path.write_bytes(b"this is not a database " * 100)
    with pytest.raises(DamagedError, match="move it away"):
        ObjectMemory(path)
    with pytest.raises(StorageError):
        ObjectMemory(path / "below")


def test_a_file_that_is_damaged_later_on_is_an_error_when_it_is_met(tmp_path):
    path = tmp_path / "objects.db"
    memory = ObjectMemory(path)
    memory.see([seen(float(number), label=f"mug {number}") for number in range(500)])
    memory.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(DamagedError, match="move it away"):
        everything(ObjectMemory(path))


def test_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "objects.db"
    memory = ObjectMemory(path)
    memory._database.execute("PRAGMA user_version=9")
    memory.close()
    with pytest.raises(DamagedError, match="format 9"):
        ObjectMemory(path)


SMALL_DISK = """
import sqlite3, sys
from pathlib import Path
from newfound_core.errors import StorageError
from newfound_core.object_memory import ObjectMemory, Sighting

def see(n):
    place = (float(n), 0, 0)
    memory.see([Sighting("map", place, (0, 0, 0, 1), (.1, .1, .1), .01, n, label="mug")])

path, filler = Path(sys.argv[1]) / "objects.db", Path(sys.argv[1]) / "filler"
memory = ObjectMemory(path)
for n in range(20):
    see(n)
with filler.open("wb", buffering=0) as file:
    try:
        while file.write(b"x" * 4096):
            pass
    except OSError as error:
        print(error.strerror)
stored = 20
try:
    for n in range(20, 2000):
        see(n)
        stored += 1
except StorageError as error:
    print("no room" in str(error), memory.count() == stored, len(memory.find("mug", 0, 5)))
memory.close()
memory = ObjectMemory(path)
print(memory.count() == stored)
filler.unlink()
see(5000)
print(memory.count() == stored + 1)
memory.close()
print(*sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone())
"""
MOUNT = 'mount -t tmpfs -o size=600k none "$1" && exec "$2" -c "$3" "$1"'


def test_on_a_full_disk_what_is_stored_stays_is_served_and_goes_on_when_there_is_room(tmp_path):
    """In a mount that only the process below sees."""
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("a small disk needs a namespace of its own, which this machine does not allow")
    command = ["unshare", "-rm", "sh", "-c", MOUNT, "sh", str(tmp_path), sys.executable]
    done = subprocess.run([*command, SMALL_DISK], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "No space left on device", "True True 5", "True", "True", "ok"
    ], done.stderr  # fmt: skip


def test_a_database_of_the_first_format_is_read(tmp_path):
    path = tmp_path / "objects.db"
    memory = ObjectMemory(path)
    memory.see([seen(label="mug")])
    memory._database.execute("ALTER TABLE objects DROP COLUMN votes")
    memory._database.execute("PRAGMA user_version=1")
    memory.close()
    memory = ObjectMemory(path)
    memory.see([seen()])
    assert [each.label for each in everything(memory)] == ["mug"]
    memory.close()
