# SPDX-License-Identifier: Apache-2.0
import json
import subprocess
import sys
from dataclasses import replace

import pytest

from newfound_core.errors import ConfigError, DataError
from newfound_core.open_world.job import (
    ClassAccuracy,
    Job,
    JobProgress,
    JobResult,
    LearningOptions,
    append_progress,
    cancel,
    create_job,
    image_paths,
    is_cancelled,
    read_job,
    read_progress,
    read_result,
    write_result,
)

JOB = Job("mug", "../../versions/000007", LearningOptions(epochs=3), {"0.png": "web"})
IMAGES = {"1.jpg": b"one", "0.png": b"nought"}


def test_a_job_comes_back_as_it_was_written(tmp_path):
    create_job(tmp_path / "job", JOB, IMAGES)
    assert read_job(tmp_path / "job") == JOB
    assert [p.read_bytes() for p in image_paths(tmp_path / "job")] == [b"nought", b"one"]


def test_a_job_is_never_written_over_another(tmp_path):
    create_job(tmp_path / "job", JOB, IMAGES)
    with pytest.raises(FileExistsError):
        create_job(tmp_path / "job", JOB, IMAGES)


@pytest.mark.parametrize(
    "changes",
    [
        {"label": " "},
        {"knowledge": "/etc"},
        {"knowledge": ""},
        {"sources": {"../0.png": "web"}},
        {"sources": {"0.png": 3}},
    ],
)
def test_a_job_that_makes_no_sense_is_refused(changes):
    with pytest.raises(ConfigError):
        replace(JOB, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": -1},
        {"epochs": 2.5},
        {"batch_size": 1},
        {"learning_rate": float("nan")},
        {"learning_rate": "fast"},
        {"max_accuracy_loss": 2},
        {"frozen_stages": -1},
    ],
)
def test_options_that_make_no_sense_are_refused(changes):
    with pytest.raises(ConfigError):
        LearningOptions(**changes)


@pytest.mark.parametrize("name", ["../0.png", "a/b.png", ".png", "0.gif", "a\n.png"])
def test_images_with_names_that_lead_elsewhere_are_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="an image is named by"):
        create_job(tmp_path / "job", replace(JOB, sources={}), {name: b""})


def test_a_job_without_images_is_refused(tmp_path):
    with pytest.raises(DataError):
        create_job(tmp_path / "job", replace(JOB, sources={}), {})


def test_links_and_strange_files_among_the_images_are_not_opened(tmp_path):
    folder = create_job(tmp_path / "job", JOB, IMAGES)
    (folder / "images" / "2.png").symlink_to("/etc/hostname")
    (folder / "images" / "notes.txt").write_text("?")
    assert [p.name for p in image_paths(folder)] == ["0.png", "1.jpg"]


@pytest.mark.parametrize(
    "values",
    [
        "not json",
        [],
        {"format": 2},
        {"format": 1, "label": "mug"},
        {"format": 1, "label": "mug", "knowledge": "a", "command": "rm"},
        {"format": 1, "label": "mug", "knowledge": "a", "options": {"shell": "rm"}},
        {"format": 1, "label": "mug", "knowledge": "a", "options": []},
        {"format": 1, "label": "mug", "knowledge": "a", "sources": []},
    ],
)
def test_a_damaged_job_is_refused(tmp_path, values):
    text = values if isinstance(values, str) else json.dumps(values)
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(ConfigError):
        read_job(tmp_path)


def test_the_last_complete_line_is_the_progress(tmp_path):
    assert read_progress(tmp_path) is None
    append_progress(tmp_path, JobProgress("training", 0.5, None))
    append_progress(tmp_path, JobProgress("training", 0.6, 12.0))
    with (tmp_path / "progress.jsonl").open("a") as file:
        file.write('{"stage": "tra')  # a crash
    assert read_progress(tmp_path) == JobProgress("training", 0.6, 12.0)


def test_a_result_comes_back_as_it_was_written(tmp_path):
    assert read_result(tmp_path) is None
    accuracy = {"cup": ClassAccuracy(5, 0.8, 0.6), "mug": ClassAccuracy(4, None, 1.0)}
    result = JobResult("learned", "", 12.5, 20, ("3.png",), accuracy)
    write_result(tmp_path, result)
    assert read_result(tmp_path) == result
    assert result.learned


def test_a_damaged_result_is_named(tmp_path):
    (tmp_path / "result.json").write_text('{"format": 1, "outcome": "wonderful"}')
    with pytest.raises(DataError, match=r"result\.json is damaged"):
        read_result(tmp_path)


def test_a_job_can_be_cancelled(tmp_path):
    assert not is_cancelled(tmp_path)
    cancel(tmp_path)
    assert is_cancelled(tmp_path)


def test_a_node_that_only_follows_jobs_needs_no_torch():
    code = "import sys, newfound_core.open_world.job; print({'torch', 'cv2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
