# SPDX-License-Identifier: Apache-2.0
import ctypes
import os
import signal
import subprocess
import sys

import pytest

from newfound_core.errors import DataError, LockedError, StorageError
from newfound_core.storage import (
    FolderLock,
    atomic_directory,
    read_format,
    read_json,
    remove_leftovers,
    remove_tree,
    write_bytes,
    write_json,
)

HOLD = """
import sys, time
from pathlib import Path
from newfound_core.storage import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def write(folder, text):
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text(text)


def test_nothing_is_seen_before_the_block_ends(tmp_path):
    target = tmp_path / "target"
    with atomic_directory(target) as aside:
        write(aside, "new")
        assert not target.exists()
        assert aside.parent == target.parent
    assert (target / "sub" / "file").read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_in_the_block_leaves_nothing(tmp_path):
    def interrupted():
        with atomic_directory(tmp_path / "target") as aside:
            write(aside, "half")
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "filled directory", "broken link"])
def test_what_exists_is_not_overwritten(tmp_path, kind):
    target = tmp_path / "target"
    if kind == "file":
        target.write_text("old")
    elif kind == "broken link":
        target.symlink_to("nowhere")
    else:
        target.mkdir()
        (target / "file").write_text("old")
    with pytest.raises(FileExistsError), atomic_directory(target) as aside:
        write(aside, "new")
    assert list(tmp_path.iterdir()) == [target]


def test_replacing_exchanges_the_two_in_one_step(tmp_path):
    target = tmp_path / "target"
    for text in ("old", "new"):
        with atomic_directory(target, replace=True) as aside:
            write(aside, text)
    assert (target / "sub" / "file").read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_where_the_kernel_cannot_exchange_the_old_one_stays(tmp_path, monkeypatch):
    class Libc:
        def renameat2(self, *_):
            ctypes.set_errno(22)
            return -1

    target = tmp_path / "target"
    with atomic_directory(target) as aside:
        write(aside, "old")
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Libc())
    with (
        pytest.raises(OSError, match="cannot exchange"),
        atomic_directory(target, replace=True) as aside,
    ):
        write(aside, "new")
    assert (target / "sub" / "file").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    write_bytes(tmp_path / "new" / "a", b"1")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_bytes(tmp_path / "new" / "a", b"2")
    assert (tmp_path / "new" / "a").read_bytes() == b"1"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a"]


def test_json_comes_back_as_it_was_written(tmp_path):
    write_json(tmp_path / "a.json", {"format": 3, "name": "Tasse ü", "values": [1, 2.5, None]})
    assert read_format(tmp_path / "a.json", 3) == {"name": "Tasse ü", "values": [1, 2.5, None]}


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": NaN}', "[" * 100_000, '{"a": 1e999}x'])
def test_what_is_no_json_object_is_a_data_error(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError):
        read_json(tmp_path / "a.json")


def test_another_format_is_refused_with_both_numbers(tmp_path):
    write_json(tmp_path / "a.json", {"format": 1})
    with pytest.raises(DataError, match=r"format 1, this version of newfound reads 2"):
        read_format(tmp_path / "a.json", 2)


def test_a_missing_file_is_not_a_damaged_one(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "a.json")


def test_infinity_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"a": float("inf")})
    assert not (tmp_path / "a.json").exists()


def test_leftovers_of_interrupted_writers_are_removed_and_nothing_else(tmp_path):
    (tmp_path / ".a.part12").write_text("")
    (tmp_path / ".b.writing-x").mkdir()
    (tmp_path / ".hidden").write_text("")
    (tmp_path / "file").write_text("")
    remove_leftovers(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".hidden", "file"]


def test_a_removed_tree_is_gone_and_a_missing_one_is_no_error(tmp_path):
    write(tmp_path, "text")
    remove_tree(tmp_path / "sub")
    remove_tree(tmp_path / "sub")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of tmp_path."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


def test_a_second_process_is_refused_and_told_who_holds_it(tmp_path, holder):
    with pytest.raises(LockedError, match=f"pid {holder.pid}"):
        FolderLock(tmp_path)


def test_a_killed_process_leaves_no_lock(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    FolderLock(tmp_path).close()


def test_it_can_be_taken_again_after_it_was_closed(tmp_path):
    first = FolderLock(tmp_path)
    with pytest.raises(LockedError):
        FolderLock(tmp_path)
    first.close()
    first.close()
    FolderLock(tmp_path).close()


def test_a_child_that_is_given_the_descriptor_keeps_the_lock(tmp_path):
    lock = FolderLock(tmp_path)
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(sleep, pass_fds=[lock.descriptor]) as child:
        lock.close()
        with pytest.raises(LockedError):
            FolderLock(tmp_path)
        child.kill()
    FolderLock(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        FolderLock(tmp_path / "file" / "below")
