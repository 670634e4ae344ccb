# SPDX-License-Identifier: Apache-2.0
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from newfound_core.errors import (
    DamagedError,
    DataError,
    LockedError,
    StorageError,
    UnknownVersionError,
)
from newfound_core.knowledge.knowledge_base import (
    ClassNote,
    KnowledgeBase,
    VersionNote,
    classes_after,
    read_note,
    write_note,
)

KILLS = int(os.environ.get("NEWFOUND_KILLS", "15"))  # make soak: 200


def read(folder):
    """A version of these tests: two files that must agree."""
    try:
        texts = [(folder / name).read_text() for name in ("one", "two")]
    except OSError as error:
        raise DataError(str(error)) from error
    if texts[0] != texts[1] or not texts[0]:
        raise DataError(f"{folder.name} is half written")
    return texts[0]


def writer(text, labels=("mug",)):
    def write(folder):
        (folder / "one").write_text(text)
        (folder / "two").write_text(text)
        return labels

    return write


@pytest.fixture
def make_base(tmp_path):
    bases = []

    def make(keep=10):
        bases.append(KnowledgeBase(tmp_path / "base", read, keep))
        return bases[-1]

    yield make
    for base in bases:
        base.close()


@pytest.fixture
def base(make_base):
    """A base that was started from a shipped version."""
    base = make_base()
    assert base.open(writer("shipped")).version == 1
    return base


def add(base, text, labels=("mug",)):
    version = base.add(writer(text, labels), f"made {text}")
    base.switch(version)
    return version


def test_the_first_version_is_the_shipped_one(base):
    assert base.current == 1
    assert (base.root / "current").readlink() == Path("versions/000001")
    assert base.note(1).classes["mug"].origin == "shipped"


def test_a_new_version_is_used_only_once_it_is_switched_to(base):
    version = base.add(writer("second", ("mug", "fork")), "learned")
    assert base.current == 1
    assert base.switch(version) == "second"
    assert base.current == version == 2
    assert base.note(2).classes["fork"].since_version == 2
    assert base.note(2).classes["mug"].since_version == 1


def test_it_is_found_again_as_it_was_left(base, make_base):
    add(base, "second")
    base.close()
    opened = make_base().open(writer("not needed"))
    assert (opened.version, opened.content, opened.warnings) == (2, "second", [])


def test_a_second_opener_is_refused(base, make_base):
    with pytest.raises(LockedError):
        make_base()


def test_versions_are_kept_to_a_limit_but_never_the_current_one_removed(make_base):
    base = make_base(keep=3)
    base.open(writer("shipped"))
    for number in range(2, 7):
        add(base, str(number))
    assert base.versions() == [4, 5, 6]
    base._point_to(4)
    base.add(writer("7"), "")
    base.switch(base.add(writer("8"), ""))
    assert base.versions() == [6, 7, 8]


def test_going_back_makes_a_new_version_equal_to_the_old_one(base):
    add(base, "second", ("mug", "fork"))
    version = base.copy(1)
    assert base.switch(version) == "shipped"
    assert base.current == 3
    assert base.note(3).classes["mug"].since_version == 1
    assert "version 1 restored" in base.note(3).reason
    assert base.versions() == [1, 2, 3]


@pytest.mark.parametrize("version", [1, 99, 0, -1])
def test_only_an_earlier_version_can_be_restored(base, version):
    with pytest.raises(UnknownVersionError, match=f"no version {version} to restore"):
        base.copy(version)


@pytest.mark.parametrize("damage", ["truncated", "file missing", "empty folder"])
def test_a_damaged_version_falls_back_to_the_newest_good_one(base, make_base, damage):
    for text in ("second", "third"):
        add(base, text)
    folder = base.folder(3)
    base.close()
    if damage == "truncated":
        (folder / "two").write_text("thi")
    else:
        (folder / "two").unlink()
        if damage == "empty folder":
            (folder / "one").unlink()
    base = make_base()
    opened = base.open(writer("not needed"))
    assert (opened.version, opened.content, base.current) == (2, "second", 2)
    assert "version 3 cannot be read" in opened.warnings[0]
    assert folder.is_dir(), "the damaged one stays, to be looked at"
    assert add(base, "fourth") == 4, "numbers are not used twice"


@pytest.mark.parametrize("link", ["missing", "dangling", "outside", "a file"])
def test_without_a_usable_link_the_newest_good_version_is_used(base, make_base, link):
    add(base, "second")
    base.close()
    path = base.root / "current"
    path.unlink()
    if link == "a file":
        path.write_text("versions/000001")
    elif link != "missing":
        path.symlink_to("versions/000077" if link == "dangling" else "/etc")
    base = make_base()
    assert base.open().version == 2
    assert base.current == 2


def test_if_nothing_can_be_read_it_starts_anew_and_says_so(base, make_base):
    (base.folder(1) / "one").unlink()
    base.close()
    base = make_base()
    with pytest.raises(DamagedError, match="version 1 cannot be read"):
        base.open()
    opened = base.open(writer("shipped again"))
    assert (opened.version, len(opened.warnings)) == (2, 1)
    assert base.note(2).classes["mug"].origin == "shipped"


def test_a_start_anew_that_fails_leaves_the_link_as_it_was(base, make_base):
    (base.folder(1) / "one").unlink()
    base.close()
    base = make_base()
    with pytest.raises(DamagedError, match="new version 2 cannot be used"):
        base.open(lambda folder: ["mug"])
    assert (base.current, base.versions()) == (1, [1])


def test_a_new_version_that_cannot_be_read_back_is_not_used(base):
    version = base.add(lambda folder: ["mug"], "broken")
    with pytest.raises(DamagedError, match="new version 2"):
        base.switch(version)
    assert (base.current, base.versions()) == (1, [1])


def test_the_result_of_a_job_is_moved_here_once(base):
    result = base.root / "jobs" / "a" / "result"
    result.mkdir(parents=True)
    writer("learned")(result)
    version = base.adopt(result, ["mug", "fork"], "learned fork", "a")
    assert not result.exists()
    # Killed before the switch, the next process adopts again: there is nothing left to move.
    assert base.adopt(result, ["mug", "fork"], "learned fork", "a") == version == 2
    assert base.switch(version) == "learned"
    with pytest.raises(DamagedError, match="job b has no result"):
        base.adopt(result, [], "", "b")


def test_a_job_with_the_id_of_an_earlier_one_is_another_job(base):
    result = base.root / "jobs" / "000001" / "result"
    for number, text in ((2, "learned"), (3, "learned after jobs/ was emptied")):
        result.mkdir(parents=True)
        writer(text)(result)
        assert base.adopt(result, ["mug"], text, "000001") == number
        assert base.switch(number) == text
    assert base.versions() == [1, 2, 3]


def test_the_version_in_use_is_never_removed(base):
    def refuse(content):
        raise DataError("not what it should be")

    with pytest.raises(DamagedError, match="not what it should be"):
        base.switch(1, refuse)
    assert (base.current, base.versions()) == (1, [1])


def test_left_overs_of_a_killed_writer_are_swept(base, make_base):
    left_over = base.folder_of_versions / ".000002.writing-x"
    left_over.mkdir()
    (left_over / "one").write_text("half")
    base.close()
    make_base()
    assert not left_over.exists()


FILL = """
import resource, sys
from pathlib import Path
from newfound_core.errors import StorageError
from newfound_core.knowledge.knowledge_base import KnowledgeBase

base = KnowledgeBase(Path(sys.argv[1]), lambda folder: (folder / "one").read_text())
base.open()
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # the kernel refuses as a full disk does

def write(folder):
    (folder / "one").write_text("x" * 2000)
    return ["mug"]

for change in (lambda: base.add(write, "too large"), lambda: base.copy(2)):
    try:
        change()
    except StorageError as error:
        print(error)
print(base.current, base.versions())
"""


def test_a_full_disk_is_a_storage_error_and_nothing_changes(base):
    base.add(writer("x" * 5000), "large")
    base.close()
    command = [sys.executable, "-c", FILL, str(base.root)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert ["could not be written" in line for line in lines] == [True, True, False]
    assert lines[2] == "1 [1, 2]"
    assert [p.name for p in base.folder_of_versions.iterdir() if p.name.startswith(".")] == []


def test_a_read_only_parent_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        KnowledgeBase(tmp_path / "file" / "base", read)


CHANGE = """
import sys
from pathlib import Path
from newfound_core.knowledge.knowledge_base import KnowledgeBase

base = KnowledgeBase(Path(sys.argv[1]), lambda folder: (folder / "one").read_text(), keep=4)
last = base.open().version
while True:
    def write(folder, text=str(last + 1)):
        for name in ("one", "two"):
            (folder / name).write_text(text)
        return ["mug"]
    if last % 5 == 3:
        result = base.root / "result"
        result.mkdir(exist_ok=True)
        write(result)
        last = base.adopt(result, ["mug"], "learned", f"job after {last}")
    elif last % 5 == 4:
        last = base.copy(base.versions()[0])
    else:
        last = base.add(write, "added")
    base.switch(last)
    print(last, flush=True)
"""


def kill_at_random(root, seed):
    """Let a process change the base, kill it; the last version it said was in use."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHANGE, str(root)], stdout=subprocess.PIPE, text=True
    )
    said = child.stdout.readline()
    time.sleep(random.Random(seed).uniform(0, 0.1))
    child.kill()
    said += child.stdout.read()
    child.wait()
    child.stdout.close()
    return int(said.split("\n")[-2])


def test_killed_at_any_moment_knowledge_is_whole(base, make_base):
    base.close()
    for seed in range(KILLS):
        said = kill_at_random(base.root, seed)
        after = make_base(keep=4)
        opened = after.open()
        assert opened.warnings == []
        assert opened.version >= said, "what was in use is in use, or what came after"
        for version in after.versions():
            read(after.folder(version))
        after.close()


def test_a_note_comes_back_as_it_was_written(tmp_path):
    note = VersionNote("learned 'mug'", 12.5, {"Tasse ☕": ClassNote("learned", 3, 12.5)}, "j1")
    write_note(tmp_path, note)
    assert read_note(tmp_path) == note


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"format": 2}', '{"format": 1, "classes": 5}', "\xff",
     '{"format": 1, "reason": "", "made": 0, "job": "", "classes": {"a": {"origin": "x"}}}'],
)  # fmt: skip
def test_a_damaged_note_is_no_note(tmp_path, content):
    (tmp_path / "note.json").write_text(content, encoding="latin-1")
    assert read_note(tmp_path) is None


def test_a_missing_note_is_no_note(tmp_path):
    assert read_note(tmp_path) is None


def test_old_classes_keep_their_notes_and_new_ones_are_learned_now():
    before = VersionNote("shipped", 1.0, {"mug": ClassNote("shipped", 1, 0.0)})
    after = classes_after(before, ["mug", "fork"], version=4, made=9.0)
    assert after == {"mug": ClassNote("shipped", 1, 0.0), "fork": ClassNote("learned", 4, 9.0)}


def test_classes_of_the_first_version_are_shipped():
    assert classes_after(None, ["mug"], 1, 9.0) == {"mug": ClassNote("shipped", 1, 0.0)}


def test_a_deleted_knowledge_base_is_a_storage_error_and_is_said(base):
    base.open(writer("a"))
    assert base.problem() == ""
    shutil.rmtree(base.root)
    assert "was deleted" in base.problem()
    for change in (base.check, base.versions, lambda: base.add(writer("b"), "more")):
        with pytest.raises(StorageError):
            change()
