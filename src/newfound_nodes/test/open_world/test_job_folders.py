# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

import pytest

from newfound_core.open_world import job as jobs
from newfound_core.open_world.job import JobResult
from newfound_nodes.open_world.job_folders import JobFolders, source_unknown, unknown_of
from newfound_nodes.open_world.job_status import JobStatus

DONE = JobStatus("000001", "a", "done", 1.0)


@pytest.fixture
def folders(tmp_path):
    return JobFolders(tmp_path / "jobs")


def test_jobs_are_numbered_and_listed_in_order(folders, make_job):
    names = [folders.create(*make_job(label)) for label in ("a", "b", "c")]
    assert names == folders.unfinished() == ["000001", "000002", "000003"]
    folders.finish("000002", JobStatus("000002", "b", "failed", message="why"))
    assert folders.unfinished() == ["000001", "000003"]
    assert folders.status("000002").message == "why"
    assert folders.create(*make_job("d")) == "000004"


def test_another_version_to_start_from_makes_earlier_work_useless(folders, make_job):
    name = folders.create(*make_job("a"))
    assert folders.begin(name, 7) == 1
    state = folders.folder(name) / jobs.STATE_NAME
    state.mkdir()
    assert folders.begin(name, 7) == 2
    assert state.is_dir()
    assert folders.begin(name, 8) == 3
    assert not state.exists()
    folders.interrupted(name)
    assert folders.begin(name, 8) == 3


def test_a_damaged_result_is_a_failure_with_the_reason(folders, make_job):
    name = folders.create(*make_job("a"))
    assert folders.result(name) is None
    (folders.folder(name) / jobs.RESULT_NAME).write_text("{")
    assert folders.result(name).outcome == "internal_error"
    jobs.write_result(folders.folder(name), JobResult("cancelled"))
    assert folders.result(name).outcome == "cancelled"


def test_the_unknown_object_of_a_job_is_found_again(folders):
    job = jobs.Job("vase", "../../current", sources={"00.jpg": source_unknown("u1")})
    name = folders.create(job, {"00.jpg": b"x"})
    assert unknown_of(jobs.read_job(folders.folder(name))) == folders.unknown_id(name) == "u1"
    (folders.folder(name) / jobs.JOB_NAME).write_text("{")
    assert (folders.unknown_id(name), folders.label(name)) == ("", "")


def test_left_overs_of_a_killed_writer_are_swept(folders):
    (folders.root / ".000009.writing-x").mkdir()
    assert list(JobFolders(folders.root).root.iterdir()) == []


def test_left_overs_of_a_killed_learner_are_swept(folders, make_job):
    name = folders.create(*make_job("a"))
    half, reserve = (folders.folder(name) / n for n in (".result.writing-x7", ".reserve"))
    for spoil in (lambda: folders.begin(name, 7), lambda: folders.finish(name, DONE)):
        half.mkdir()
        (half / "model.safetensors").write_text("half")
        reserve.write_text("kept free")
        spoil()
        assert not half.exists()
        assert not reserve.exists()


SMALL_DISK = """
import sys
from pathlib import Path
from newfound_core.open_world import job as jobs
from newfound_nodes.open_world.job_folders import JobFolders
from newfound_nodes.open_world.job_status import JobStatus

folders = JobFolders(Path(sys.argv[1]) / "jobs")
name = folders.create(jobs.Job("a", "../../current"), {"00.jpg": b"x" * 1000})
result = folders.folder(name) / jobs.CHECKPOINT_NAME
result.mkdir()
try:
    (result / "model.safetensors").write_bytes(b"x" * 10**7)
except OSError as error:
    print(error.strerror)
folders.finish(name, JobStatus(name, "a", "failed", message="the disk is full"))
print(JobFolders(folders.root).unfinished(), folders.status(name).message)
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
from newfound_core.open_world.job import Job
from newfound_nodes.open_world.job_folders import JobFolders

folders = JobFolders(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # the kernel refuses as a full disk does
try:
    folders.create(Job("a", "../../current"), {"00.jpg": b"x" * 2000})
except StorageError as error:
    print(error)
print(folders.unfinished())
"""


def test_a_full_disk_is_a_storage_error_and_leaves_no_job(folders):
    command = [sys.executable, "-c", FILL, str(folders.root)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "could not be written" in lines[0]
    assert lines[1] == "[]"
    assert list(folders.root.iterdir()) == []
