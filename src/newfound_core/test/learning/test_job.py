# SPDX-License-Identifier: Apache-2.0
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import get_args

import pytest

from newfound_core.errors import ConfigError, DamagedError, DataError, StorageError
from newfound_core.learning.job import (
    ClassAccuracy,
    Job,
    JobProgress,
    JobResult,
    JobState,
    JobStatus,
    LearningOptions,
    Reason,
)
from newfound_core.learning.job_folder import JobFolder, JobFolders

JOB = Job("mug", "../../versions/000007", LearningOptions(epochs=3), {"0.png": "web"})
IMAGES = {"1.jpg": b"one", "0.png": b"nought"}


def test_a_job_comes_back_as_it_was_written(tmp_path):
    JobFolder.create(tmp_path / "job", JOB, IMAGES)
    assert JobFolder(tmp_path / "job").read() == JOB
    assert [p.read_bytes() for p in JobFolder(tmp_path / "job").image_paths()] == [
        b"nought",
        b"one",
    ]


def test_a_job_is_never_written_over_another(tmp_path):
    JobFolder.create(tmp_path / "job", JOB, IMAGES)
    with pytest.raises(FileExistsError):
        JobFolder.create(tmp_path / "job", JOB, IMAGES)


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
        JobFolder.create(tmp_path / "job", replace(JOB, sources={}), {name: b""})


def test_a_job_without_images_is_refused(tmp_path):
    with pytest.raises(DataError):
        JobFolder.create(tmp_path / "job", replace(JOB, sources={}), {})


def test_links_and_strange_files_among_the_images_are_not_opened(tmp_path):
    folder = JobFolder.create(tmp_path / "job", JOB, IMAGES).path
    (folder / "images" / "2.png").symlink_to("/etc/hostname")
    (folder / "images" / "notes.txt").write_text("?")
    assert [p.name for p in JobFolder(folder).image_paths()] == ["0.png", "1.jpg"]


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
        JobFolder(tmp_path).read()


def test_the_last_complete_line_is_the_progress(tmp_path):
    assert JobFolder(tmp_path).progress() is None
    JobFolder(tmp_path).append_progress(JobProgress(JobState.TRAINING, 0.5, None))
    JobFolder(tmp_path).append_progress(JobProgress(JobState.TRAINING, 0.6, 12.0))
    with (tmp_path / "progress.jsonl").open("a") as file:
        file.write('{"state": "tra')  # a crash
    assert JobFolder(tmp_path).progress() == JobProgress(JobState.TRAINING, 0.6, 12.0)


def test_a_result_comes_back_as_it_was_written(tmp_path):
    assert JobFolder(tmp_path).result() is None
    accuracy = {"cup": ClassAccuracy(5, 0.8, 0.6), "mug": ClassAccuracy(4, None, 1.0)}
    result = JobResult(JobState.DONE, "", "", 12.5, 20, ("3.png",), accuracy)
    JobFolder(tmp_path).write_result(result)
    assert JobFolder(tmp_path).result() == result
    assert result.known_accuracy() == (0.8, 0.6)


@pytest.mark.parametrize(
    "text", ['{"format": 2, "state": "wonderful"}', "{", '{"format": 2, "state": "queued"}']
)
def test_a_damaged_result_is_a_failure_that_names_it(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    result = JobFolder(tmp_path).result()
    assert (result.state, result.reason) == (JobState.FAILED, "internal_error")
    assert "result.json is damaged" in result.message


def test_a_job_can_be_cancelled(tmp_path):
    assert not JobFolder(tmp_path).cancelled
    JobFolder(tmp_path).cancel()
    assert JobFolder(tmp_path).cancelled


def test_a_node_that_only_follows_jobs_needs_no_torch():
    code = "import sys, newfound_core.learning.job; print({'torch', 'cv2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


FINISHED = JobStatus("000001", "a", JobState.DONE, 1.0)


def labelled(label):
    return Job(label), {"00.jpg": b"\xff\xd8\xff"}


@pytest.fixture
def folders(tmp_path):
    return JobFolders(tmp_path / "jobs")


def test_jobs_are_numbered_and_listed_in_order(folders):
    names = [folders.create(*labelled(label)) for label in ("a", "b", "c")]
    assert names == list(folders.unfinished()) == ["000001", "000002", "000003"]
    folders.finish("000002", JobStatus("000002", "b", JobState.FAILED, message="why"))
    assert list(folders.unfinished()) == ["000001", "000003"]
    assert folders.status("000002").message == "why"
    assert folders.create(*labelled("d")) == "000004"


def test_another_version_to_start_from_makes_earlier_work_useless(folders):
    name = folders.create(*labelled("a"))
    assert folders[name].begin(7) == 1
    state = folders[name].resume_path
    state.mkdir()
    assert folders[name].begin(7) == 2
    assert state.is_dir()
    assert folders[name].begin(8) == 3
    assert not state.exists()
    folders[name].interrupted()
    assert folders[name].begin(8) == 3


def test_the_unknown_object_of_a_job_is_found_again(folders):
    name = folders.create(Job("vase", unknown_id="u1"), {"00.jpg": b"x"})
    assert folders.job(name).unknown_id == "u1"
    (folders[name].path / "job.json").write_text("{")
    assert folders.job(name) is None
    assert folders.unfinished() == {name: None}


def test_a_folder_of_jobs_that_was_deleted_is_a_storage_error(folders):
    shutil.rmtree(folders.root)
    with pytest.raises(StorageError, match="is gone"):
        folders.create(*labelled("a"))


def test_left_overs_of_a_killed_writer_are_swept(folders):
    (folders.root / ".000009.writing-x").mkdir()
    assert list(JobFolders(folders.root).root.iterdir()) == []


def test_left_overs_of_a_killed_learner_are_swept(folders):
    name = folders.create(*labelled("a"))
    half, reserve = (
        folders[name].path / n for n in (".result.writing-x7", ".result.json.part-reserve")
    )
    for spoil in (lambda: folders[name].begin(7), lambda: folders.finish(name, FINISHED)):
        half.mkdir()
        (half / "model.safetensors").write_text("half")
        reserve.write_text("kept free")
        spoil()
        assert not half.exists()
        assert not reserve.exists()


SMALL_DISK = """
import sys
from pathlib import Path
from newfound_core.learning.job import Job, JobState, JobStatus
from newfound_core.learning.job_folder import JobFolders

folders = JobFolders(Path(sys.argv[1]) / "jobs")
name = folders.create(Job("a"), {"00.jpg": b"x" * 1000})
result = folders[name].result_path
result.mkdir()
try:
    (result / "model.safetensors").write_bytes(b"x" * 10**7)
except OSError as error:
    print(error.strerror)
folders.finish(name, JobStatus(name, "a", JobState.FAILED, message="the disk is full"))
print(list(JobFolders(folders.root).unfinished()), folders.status(name).message)
"""
MOUNT = 'mount -t tmpfs -o size=100k none "$1" && exec "$2" -c "$3" "$1"'


def test_on_a_full_disk_a_job_makes_room_for_its_own_status(tmp_path):
    """In a mount that only the process below sees."""
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("a small disk needs a namespace of its own, which this machine does not allow")
    command = ["unshare", "-rm", "sh", "-c", MOUNT, "sh", str(tmp_path), sys.executable]
    done = subprocess.run([*command, SMALL_DISK], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["No space left on device", "[] the disk is full"]


FILL = """
import resource, sys
from pathlib import Path
from newfound_core.errors import StorageError
from newfound_core.learning.job import Job
from newfound_core.learning.job_folder import JobFolders

folders = JobFolders(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # the kernel refuses as a full disk does
try:
    folders.create(Job("a"), {"00.jpg": b"x" * 2000})
except StorageError as error:
    print(error)
print(list(folders.unfinished()))
"""


def test_a_full_disk_is_a_storage_error_and_leaves_no_job(folders):
    command = [sys.executable, "-c", FILL, str(folders.root)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "could not be written" in lines[0]
    assert lines[1] == "[]"
    assert list(folders.root.iterdir()) == []


def test_a_job_at_work_has_the_state_that_its_process_reports():
    assert JobStatus.following("1", "mug", None).state is JobState.PREPARING
    progress = JobProgress(JobState.VALIDATING, 1.0, 0.0)
    status = JobStatus.following("1", "mug", progress)
    assert status.state is JobState.VALIDATING
    assert status.progress < 1, "not yet in use"


@pytest.mark.parametrize("reason", [r for r in get_args(Reason) if r])
def test_every_reason_is_said(reason):
    status = JobStatus.ended("1", "mug", JobResult(JobState.FAILED, reason))
    assert status.state.final
    assert status.message == reason


def test_a_full_disk_is_told_apart_from_other_failures():
    full = JobResult(JobState.FAILED, "disk_full")
    assert JobStatus.ended("1", "mug", full).storage_failed
    assert JobStatus.failed("1", "mug", StorageError("no room")).storage_failed
    assert not JobStatus.failed("1", "mug", DamagedError("cannot be read")).storage_failed
    assert JobStatus.failed("1", "mug", OSError("strange")).message == "internal error: strange"


def test_accuracy_is_over_the_samples_of_the_old_classes():
    accuracy = {
        "mug": ClassAccuracy(10, 1.0, 0.5),
        "cup": ClassAccuracy(30, 0.5, 0.5),
        "new": ClassAccuracy(9, None, 1.0),
    }
    assert JobResult(JobState.DONE, accuracy=accuracy).known_accuracy() == (0.625, 0.5)
    assert JobResult(JobState.DONE).known_accuracy() == (None, None)
