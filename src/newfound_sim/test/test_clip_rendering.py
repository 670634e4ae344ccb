# SPDX-License-Identifier: Apache-2.0
import hashlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from newfound_sim import clip_rendering
from newfound_sim.clip import FILE, ClipError, load_clip
from newfound_sim.clip_rendering import (
    LOCK,
    WORK,
    ClipOptions,
    finished,
    progress,
    render_clip,
    work_folder,
)
from newfound_sim.production import Workers
from newfound_sim.scenario_file import load_scenario
from newfound_sim.sources import ClipSource, find_source


def digests(folder: Path) -> dict[str, str]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def start(scenario: Path, out: Path, workers: int) -> subprocess.Popen:
    command = [sys.executable, "-m", "newfound_sim", "render", str(scenario), "--out", str(out)]
    return subprocess.Popen([*command, "--workers", str(workers)], start_new_session=True)


def test_the_clip_shows_what_the_scenario_says(rendered_clip):
    clip, source = load_clip(rendered_clip[1]), ClipSource(rendered_clip[1])
    assert len(clip.frames) == 10
    labels = [{seen.label for seen in clip.truths[f.truth].objects} for f in clip.frames]
    assert labels == [{"apple"}] * 3 + [{"mug", "apple"}] * 2 + [{"mug"}] * 5
    shares = [clip.truths[f.truth].illumination_share for f in clip.frames]
    assert shares == pytest.approx([0] * 6 + [1 / 3, 2 / 3, 0, 0], abs=1e-5)
    assert source.rgb(0).shape == (36, 48, 3)
    assert not np.array_equal(source.rgb(0), source.rgb(1)), "the sensor's noise differs"
    assert 300 < np.median(source.depth(0)) < 1200, "millimetres to the table"
    assert {p.name for p in rendered_clip[1].iterdir()} == {FILE, "images", "depth"}


def test_the_box_lies_where_the_depth_shows_the_object(rendered_clip):
    clip, source = load_clip(rendered_clip[1]), ClipSource(rendered_clip[1])
    (mug,) = clip.truths[clip.frames[5].truth].objects
    left, top, width, height = mug.box
    with_mug, without = source.depth(5).astype(int), source.depth(0).astype(int)
    nearer = without - with_mug > 15
    apple = next(o for o in clip.truths[clip.frames[0].truth].objects if o.label == "apple")
    nearer[:, apple.box[0] :] = False
    rows, columns = np.nonzero(nearer)
    assert left <= columns.min()
    assert columns.max() < left + width
    assert top <= rows.min()
    assert rows.max() < top + height


def test_a_thing_stays_in_its_place_in_the_world_while_the_camera_moves():
    """In the shipped clip, whose camera moves after 27 seconds."""
    source = ClipSource(find_source("workbench_demo"))

    def place(number):
        """The middle of what the mug's box shows, in the world."""
        [mug] = [seen for seen in source.truth(number).objects if seen.label == "mug"]
        left, top, width, height = mug.box
        info, z = source.camera_info(number), source.depth(number) / 1000
        u, v = left + width // 2, top + height // 2
        ray = [(u - info.k[2]) / info.k[0], (v - info.k[5]) / info.k[4], 1]
        x, y, w, *turn = source.pose(number)
        return np.add(Rotation.from_quat(turn).apply(np.multiply(ray, z[v, u])), [x, y, w])

    before, after = place(200), place(350)
    assert np.linalg.norm(np.subtract(source.pose(350)[:3], source.pose(200)[:3])) > 0.1
    np.testing.assert_allclose(after, before, atol=0.03)  # two sides of the mug
    assert -0.01 < before[2] < 0.15  # it stands on the table


def test_every_frame_knows_where_the_camera_was(rendered_clip):
    scenario = load_scenario(rendered_clip[0])
    for frame in load_clip(rendered_clip[1]).frames:
        expected, turn = scenario.pose_at(frame.time), Rotation.from_quat(frame.pose[3:])
        assert frame.pose[:3] == pytest.approx(expected.eye)
        forward = np.subtract(expected.target, expected.eye)
        ahead = turn.apply([0, 0, np.linalg.norm(forward)])
        np.testing.assert_allclose(ahead, forward, atol=1e-6)
        assert turn.apply([1, 0, 0])[2] == pytest.approx(0, abs=1e-6)  # it is held level


def test_a_finished_clip_is_not_made_again(rendered_clip):
    out, scenario = rendered_clip[1], load_scenario(rendered_clip[0])
    times = {p: p.stat().st_mtime_ns for p in out.rglob("*")}
    render_clip(scenario, out, ClipOptions(), workers=1)
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*")} == times
    with pytest.raises(ClipError, match="with another takes"):
        render_clip(scenario, out, ClipOptions(takes=2), workers=1)


def test_depth_can_be_left_out(tiny_scenario, tmp_path):
    clip = render_clip(
        load_scenario(tiny_scenario), tmp_path / "c", ClipOptions(depth=False), workers=1
    )
    assert all(frame.depth is None for frame in clip.frames)
    assert not (tmp_path / "c" / "depth").exists()


def test_options_that_make_no_sense_are_refused():
    for wrong in ({"takes": 0}, {"quality": 0}, {"quality": 101}):
        with pytest.raises(ClipError, match="takes must be at least 1"):
            ClipOptions(**wrong)


@pytest.mark.slow
def test_a_killed_rendering_is_continued_and_ends_the_same_with_more_workers(
    rendered_clip, tmp_path, monkeypatch
):
    (scenario, whole), killed = rendered_clip, tmp_path / "killed"
    process = start(scenario, killed, workers=2)
    while not list(killed.glob(f"{WORK}/*.npz")):
        assert process.poll() is None, "ended before it was killed"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = {int(path.stem) for path in killed.glob(f"{WORK}/*.npz")}
    assert not (killed / FILE).exists()

    made = {}

    class RecordingWorkers(Workers):
        def run(self, tasks, make, title):
            made[title] = {task.number for task in tasks}
            super().run(tasks, make, title)

    monkeypatch.setattr(clip_rendering, "Workers", RecordingWorkers)
    render_clip(load_scenario(scenario), killed, ClipOptions(), workers=2)
    assert made["keyframes"].isdisjoint(kept), "what was kept is used, not made again"
    assert digests(killed) == digests(whole)


def test_the_pictures_are_jpegs_of_the_right_size(rendered_clip):
    for name in {frame.image for frame in load_clip(rendered_clip[1]).frames}:
        content = (rendered_clip[1] / name).read_bytes()
        assert content.startswith(b"\xff\xd8")
        assert cv2.imdecode(np.frombuffer(content, np.uint8), 1).shape == (36, 48, 3)


HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_folder_in_work_tells_its_progress_and_is_clean_at_the_end(tmp_path):
    out = tmp_path / "clip"
    assert progress(out) == (0, 0)
    with work_folder(out, {"seed": 1}, files=5):
        (out / WORK / "00000.npz").touch()
        assert progress(out) == (1, 5)
    assert not (out / WORK).exists()


def test_a_folder_that_is_in_work_for_another_scenario_is_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt), work_folder(tmp_path, {"seed": 1, "light": "x"}, 5):
        raise KeyboardInterrupt
    with (
        pytest.raises(ClipError, match="with another seed: choose another folder"),
        work_folder(tmp_path, {"seed": 2, "light": "x"}, 5),
    ):
        pass
    with work_folder(tmp_path, {"seed": 1, "light": "x"}, 5):
        pass


def test_what_was_half_written_is_swept_away(tmp_path):
    with pytest.raises(KeyboardInterrupt), work_folder(tmp_path, {}, 5):
        raise KeyboardInterrupt
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / ".1.jpg.part77").touch()
    with work_folder(tmp_path, {}, 5):
        assert list((tmp_path / "images").iterdir()) == []


def test_a_finished_clip_of_another_scenario_is_refused(make_clip):
    folder = make_clip()
    assert finished(folder, {})
    with pytest.raises(ClipError, match="with another seed"):
        finished(folder, {"seed": 1})


def test_a_second_process_waits_for_the_first_and_says_so(tmp_path, monkeypatch):
    told = queue.Queue()
    monkeypatch.setattr(clip_rendering, "print", lambda text, **_: told.put(text), raising=False)
    lock = str(tmp_path / LOCK)
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout.readline() == b"locked\n"
    entered = threading.Event()

    def enter() -> None:
        with work_folder(tmp_path, {}, 5):
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
    with (
        pytest.raises(ClipError, match="cannot be written"),
        work_folder(tmp_path / "file", {}, 5),
    ):
        pass
