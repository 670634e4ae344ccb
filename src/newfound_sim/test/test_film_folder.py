# SPDX-License-Identifier: Apache-2.0
import queue
import subprocess
import sys
import threading

import pytest

from newfound_sim import film_folder
from newfound_sim.clip import ClipError
from newfound_sim.film_folder import WORK, finished, progress, workplace

LOCK = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_folder_in_work_tells_its_progress_and_is_clean_at_the_end(tmp_path):
    out = tmp_path / "clip"
    assert progress(out) == (0, 0)
    with workplace(out, {"seed": 1}, files=5):
        (out / WORK / "00000.npz").touch()
        assert progress(out) == (1, 5)
    assert not (out / WORK).exists()


def test_a_folder_that_is_in_work_for_another_scenario_is_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt), workplace(tmp_path, {"seed": 1, "light": "x"}, 5):
        raise KeyboardInterrupt
    with (
        pytest.raises(ClipError, match="with another seed: choose another folder"),
        workplace(tmp_path, {"seed": 2, "light": "x"}, 5),
    ):
        pass
    with workplace(tmp_path, {"seed": 1, "light": "x"}, 5):
        pass


def test_what_was_half_written_is_swept_away(tmp_path):
    with pytest.raises(KeyboardInterrupt), workplace(tmp_path, {}, 5):
        raise KeyboardInterrupt
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.jpg.77.partial").touch()
    with workplace(tmp_path, {}, 5):
        assert list((tmp_path / "images").iterdir()) == []


def test_a_finished_clip_of_another_scenario_is_refused(make_clip):
    folder = make_clip()
    assert finished(folder, {})
    with pytest.raises(ClipError, match="with another seed"):
        finished(folder, {"seed": 1})


def test_a_second_process_waits_for_the_first_and_says_so(tmp_path, monkeypatch):
    told = queue.Queue()
    monkeypatch.setattr(film_folder, "print", lambda text, **_: told.put(text), raising=False)
    (tmp_path / WORK).mkdir()
    lock = str(tmp_path / WORK / "lock")
    other = subprocess.Popen(
        [sys.executable, "-c", LOCK, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout.readline() == b"locked\n"
    entered = threading.Event()

    def enter() -> None:
        with workplace(tmp_path, {}, 5):
            entered.set()

    waiting = threading.Thread(target=enter)
    waiting.start()
    assert "waiting for another process" in told.get(timeout=60)
    assert not entered.is_set()
    other.communicate()
    waiting.join(30)
    assert entered.is_set()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ClipError, match="cannot be written"), workplace(tmp_path / "file", {}, 5):
        pass
