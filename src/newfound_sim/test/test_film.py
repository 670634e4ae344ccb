# SPDX-License-Identifier: Apache-2.0
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from newfound_sim.clip import FILE, ClipError, load_clip
from newfound_sim.film import FilmOptions, film
from newfound_sim.film_folder import WORK
from newfound_sim.scenario_file import load_scenario
from newfound_sim.sources import ClipSource


def digests(folder: Path) -> dict[str, str]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def start(scenario: Path, out: Path, workers: int) -> subprocess.Popen:
    command = [sys.executable, "-m", "newfound_sim", "render", str(scenario), "--out", str(out)]
    return subprocess.Popen([*command, "--workers", str(workers)], start_new_session=True)


def test_the_clip_shows_what_the_scenario_says(filmed):
    clip, source = load_clip(filmed[1]), ClipSource(filmed[1])
    assert len(clip.frames) == 10
    labels = [{seen.label for seen in clip.truths[f.truth].objects} for f in clip.frames]
    assert labels == [{"apple"}] * 3 + [{"mug", "apple"}] * 2 + [{"mug"}] * 5
    shares = [clip.truths[f.truth].illumination_share for f in clip.frames]
    assert shares == pytest.approx([0] * 6 + [1 / 3, 2 / 3, 0, 0], abs=1e-5)
    assert source.rgb(0).shape == (36, 48, 3)
    assert not np.array_equal(source.rgb(0), source.rgb(1)), "the sensor's noise differs"
    assert 300 < np.median(source.depth(0)) < 1200, "millimetres to the table"
    assert {p.name for p in filmed[1].iterdir()} == {FILE, "images", "depth"}


def test_the_box_lies_where_the_depth_shows_the_object(filmed):
    clip, source = load_clip(filmed[1]), ClipSource(filmed[1])
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


def test_a_finished_clip_is_not_made_again(filmed):
    out, scenario = filmed[1], load_scenario(filmed[0])
    times = {p: p.stat().st_mtime_ns for p in out.rglob("*")}
    film(scenario, out, FilmOptions(), workers=1)
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*")} == times
    with pytest.raises(ClipError, match="with another takes"):
        film(scenario, out, FilmOptions(takes=2), workers=1)


def test_depth_can_be_left_out(tiny_scenario, tmp_path):
    clip = film(load_scenario(tiny_scenario), tmp_path / "c", FilmOptions(depth=False), workers=1)
    assert all(frame.depth is None for frame in clip.frames)
    assert not (tmp_path / "c" / "depth").exists()


def test_options_that_make_no_sense_are_refused():
    for wrong in ({"takes": 0}, {"quality": 0}, {"quality": 101}):
        with pytest.raises(ClipError, match="takes must be at least 1"):
            FilmOptions(**wrong)


@pytest.mark.slow
def test_a_killed_film_is_continued_and_ends_the_same_with_any_number_of_workers(filmed, tmp_path):
    (scenario, whole), killed = filmed, tmp_path / "killed"
    process = start(scenario, killed, workers=2)
    while not list(killed.glob(f"{WORK}/*.npz")):
        assert process.poll() is None, "ended before it was killed"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = {p: p.stat().st_mtime_ns for p in killed.rglob("*.npz")}
    assert not (killed / FILE).exists()

    process = start(scenario, killed, workers=2)
    while process.poll() is None:  # what was kept is used, not made again
        assert all(not p.exists() or p.stat().st_mtime_ns == t for p, t in kept.items())
        time.sleep(0.05)
    assert process.returncode == 0
    assert digests(killed) == digests(whole)


def test_the_pictures_are_jpegs_of_the_right_size(filmed):
    for name in {frame.image for frame in load_clip(filmed[1]).frames}:
        content = (filmed[1] / name).read_bytes()
        assert content.startswith(b"\xff\xd8")
        assert cv2.imdecode(np.frombuffer(content, np.uint8), 1).shape == (36, 48, 3)
