# SPDX-License-Identifier: Apache-2.0
import os
import signal
import subprocess
import sys

import pytest

from newfound_core.knowledge.errors import LockedError, StorageError
from newfound_core.knowledge.folder_lock import FolderLock

HOLD = """
import sys, time
from pathlib import Path
from newfound_core.knowledge.folder_lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


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
    with pytest.raises(LockedError, match=f"number {holder.pid}"):
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
