# SPDX-License-Identifier: Apache-2.0
import os
import signal
import subprocess
import sys
import threading

import cv2
import pytest

from newfound_core import testing
from newfound_core.errors import DamagedError, StorageError
from newfound_core.learning import learn
from newfound_core.learning.job import Job, JobState, LearningOptions
from newfound_core.learning.job_folder import JobFolder
from newfound_nodes.knowledge.learning_queue import LearnerProcess, LearningQueue
from newfound_runtime.services import RequestError
from newfound_runtime.testing import eventually


class Owner:
    """The owner of the knowledge: counts versions, remembers reports."""

    def __init__(self):
        self.number = 7
        self.adopted = []
        self.reports = []
        self.refuse = None
        self.lock = threading.Lock()

    def version(self):
        return self.number

    def job_changed(self, status, job):
        assert job.label == status.label
        self.reports.append(status)

    def adopt(self, job, label, checkpoint):
        if self.refuse:
            raise self.refuse
        with self.lock:
            what = checkpoint / "what"
            self.adopted.append((job, label, what.read_text() if what.exists() else ""))
            self.number += 1
        return self.number

    def states(self, job):
        states = [report.state for report in self.reports if report.job == job]
        return [s for i, s in enumerate(states) if i == 0 or states[i - 1] != s]


@pytest.fixture
def owner():
    return Owner()


@pytest.fixture
def make_queue(tmp_path, learner, owner):
    queues = []

    def make(**options):
        options = {"command": learner} | options
        queues.append(LearningQueue(tmp_path / "jobs", owner, **options))
        queues[-1].start()
        return queues[-1]

    yield make
    for queue in queues:
        queue.close()


@pytest.fixture
def queue(make_queue):
    return make_queue()


def finished(queue, job):
    status = eventually(lambda: (s := queue.status(job)) and s.state.final and s, f"end of {job}")
    eventually(lambda: job not in queue.folders.unfinished())
    return status


def pid_of(folder):
    """The process at work on a job, once there is one."""
    path = folder / "pid"
    return int(eventually(lambda: path.exists() and path.read_text(), "a learning process"))


def test_a_job_is_learned_and_switched_to(queue, owner, make_job):
    job, before = queue.add(*make_job("vase"))
    status = finished(queue, job)
    assert (before, status.state, status.version, status.progress) == (0, "done", 8, 1.0)
    assert owner.adopted == [(job, "vase", "vase")]
    states = owner.states(job)
    assert states[0] == "queued"
    assert states[-2:] == ["switching", "done"]
    assert (status.accuracy_before, status.accuracy_after) == pytest.approx((0.6, 0.65))


def test_one_job_runs_at_a_time_and_the_others_queue(queue, owner, make_job):
    first, _ = queue.add(*make_job("waits 1"))
    second, before = queue.add(*make_job("vase"))
    assert before == 1
    pid_of(queue.folders[first].path)
    assert queue.status(second).state == "queued"
    assert queue.labels() == {"waits 1", "vase"}
    (queue.folders[first].path / "go").touch()
    finished(queue, second)
    assert [adopted[1] for adopted in owner.adopted] == ["waits 1", "vase"]
    assert not queue.busy


def test_a_flood_of_requests_is_turned_away(make_queue, make_job):
    queue = make_queue(limit=3)
    for number in range(3):
        queue.add(*make_job(f"waits {number}"))
    for _ in range(50):
        with pytest.raises(RequestError, match="3 jobs"):
            queue.add(*make_job("one too many"))
    assert len(list(queue.folders.root.iterdir())) == 3


@pytest.mark.parametrize("label", ["waits", "waits deaf"])
def test_a_running_job_can_be_cancelled(queue, owner, make_job, label):
    job, _ = queue.add(*make_job(label))
    pid_of(queue.folders[job].path)
    assert queue.cancel(job)
    assert finished(queue, job).state == "cancelled"
    assert owner.adopted == []
    assert not queue.cancel(job)
    assert not queue.cancel("999999")


def test_a_queued_job_can_be_cancelled_before_it_starts(queue, make_job):
    first, _ = queue.add(*make_job("waits"))
    second, _ = queue.add(*make_job("vase"))
    queue.cancel(second)
    (queue.folders[first].path / "go").touch()
    assert finished(queue, second).state == "cancelled"
    assert not (queue.folders[second].path / "pid").exists()


def test_a_job_that_forgets_too_much_is_rejected(queue, owner, make_job):
    job, _ = queue.add(*make_job("forgets"))
    status = finished(queue, job)
    assert (status.state, status.message) == ("rejected", "40 points")
    assert (status.accuracy_before, status.accuracy_after) == (0.9, 0.5)
    assert owner.adopted == []


def test_a_learner_that_is_killed_is_started_again(queue, make_job):
    job, _ = queue.add(*make_job("dies once"))
    assert finished(queue, job).state == "done"
    assert (queue.folders[job].path / "starts").read_text() == "++"


def test_a_learner_that_always_dies_is_given_up(make_queue, make_job):
    queue = make_queue(attempts=2)
    job, _ = queue.add(*make_job("dies"))
    status = finished(queue, job)
    assert status.state == "failed"
    assert "signal 9" in status.message
    assert (queue.folders[job].path / "starts").read_text() == "++"
    assert (queue.folders[job].path / "images").is_dir(), "the images are not lost"


def test_a_closed_queue_is_taken_up_by_the_next(queue, make_queue, owner, make_job):
    job, _ = queue.add(*make_job("waits"))
    pid = pid_of(queue.folders[job].path)
    queue.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    later = make_queue()
    assert later.labels() == {"waits"}
    (later.folders[job].path / "go").touch()
    assert finished(later, job).state == "done"


OWNER = """
import sys, time
from pathlib import Path
from newfound_core.learning.job import Job
from newfound_nodes.knowledge.learning_queue import LearningQueue

class Owner:
    version = staticmethod(lambda: 7)
    adopt = staticmethod(lambda *_: 8)
    job_changed = staticmethod(lambda *_: None)
"""
NODE = f"""{OWNER}
queue = LearningQueue(Path(sys.argv[1]), Owner, command=sys.argv[3:])
queue.start()
queue.add(Job(sys.argv[2], "../../current"), {{"00.jpg": b"..."}})
time.sleep(600)
"""


@pytest.fixture
def left_behind(tmp_path, learner):
    """The folder of a job whose learning process lives on while its node was killed."""

    def leave(label):
        command = [sys.executable, "-c", NODE, str(tmp_path / "jobs"), label, *learner]
        node = subprocess.Popen(command)
        folder = tmp_path / "jobs" / "000001"
        pid = pid_of(folder)
        node.kill()
        node.wait()
        os.kill(pid, 0)
        return folder

    return leave


def test_a_learner_whose_node_was_killed_is_found_and_followed(left_behind, make_queue):
    folder = left_behind("waits")
    queue = make_queue()
    eventually(lambda: queue.status("000001").state == "training")
    (folder / "go").touch()
    assert finished(queue, "000001").state == "done"
    assert (folder / "starts").read_text() == "+", "no second process was started"


def test_a_learner_whose_node_was_killed_can_be_stopped(left_behind, make_queue):
    folder = left_behind("waits deaf")
    queue = make_queue()
    assert queue.cancel_current().label == "waits deaf"
    assert finished(queue, "000001").state == "cancelled"
    assert LearnerProcess.find(JobFolder(folder)) is None
    assert queue.cancel_current() is None


def test_closing_ends_a_learner_whose_node_was_killed(left_behind, make_queue):
    folder = left_behind("waits deaf")
    queue = make_queue()
    eventually(lambda: queue.status("000001").state == "training")
    queue.close()
    assert LearnerProcess.find(JobFolder(folder)) is None


def test_a_learner_without_progress_is_ended(make_queue, make_job):
    queue = make_queue(timeout=3.0)
    job, _ = queue.add(*make_job("waits deaf"))
    status = finished(queue, job)
    assert (status.state, status.storage_failed) == ("failed", False)
    assert status.message == "the learning process made no progress in 3 s"
    assert LearnerProcess.find(queue.folders[job]) is None
    assert (queue.folders[job].path / "images").is_dir(), "the images are not lost"


def test_whatever_goes_wrong_no_learner_is_left_behind(queue, make_job):
    job, _ = queue.add(*make_job("waits deaf"))
    progress = queue.folders[job].path / "progress.jsonl"
    eventually(progress.exists)
    progress.unlink()
    progress.mkdir()  # reading it fails as nobody foresaw
    status = finished(queue, job)
    assert (status.state, "internal error" in status.message) == ("failed", True)
    assert LearnerProcess.find(queue.folders[job]) is None


def test_what_was_learned_on_other_knowledge_is_learned_again(queue, owner, make_job):
    job, _ = queue.add(*make_job("waits"))
    folder = queue.folders[job].path
    pid_of(folder)
    owner.number = 9
    (folder / "go").touch()
    assert finished(queue, job).state == "done"
    assert (folder / "starts").read_text() == "++"


@pytest.mark.parametrize("error", [StorageError("disk full"), DamagedError("not readable")])
def test_knowledge_that_cannot_be_switched_to_is_a_failed_job(queue, owner, make_job, error):
    owner.refuse = error
    job, _ = queue.add(*make_job("vase"))
    status = finished(queue, job)
    assert (status.state, status.message) == ("failed", str(error))
    assert status.storage_failed == isinstance(error, StorageError)


FULL_DISK = f"""{OWNER}
import resource
queue = LearningQueue(Path(sys.argv[1]), Owner, command=sys.argv[2:])
queue.start()
queue.add(Job("waits", "../../current"), {{"00.jpg": b"..."}})
job, _ = queue.add(Job("vase", "../../current"), {{"00.jpg": b"..."}})
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # the kernel refuses as a full disk does
queue.folders["000001"].cancel()
while not (status := queue.status(job)).state.final:
    time.sleep(0.02)
print(status.storage_failed, status.message)
"""


def test_a_job_that_cannot_begin_for_want_of_room_says_so(tmp_path, learner):
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "jobs"), *learner]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True")
    assert "could not be written" in done.stdout
    assert "internal error" not in done.stdout


def test_a_damaged_job_fails_and_the_next_one_is_done(queue, make_job):
    first, _ = queue.add(*make_job("waits"))
    second, _ = queue.add(*make_job("vase"))
    third, _ = queue.add(*make_job("fork"))
    (queue.folders[second].path / "job.json").write_text("{")
    (queue.folders[first].path / "go").touch()
    assert finished(queue, third).state == "done"
    assert "damaged" in queue.status(second).message


def test_old_jobs_are_removed_but_not_their_last_statuses(queue, make_job, monkeypatch):
    monkeypatch.setattr("newfound_core.learning.job_folder._FINISHED_KEPT", 2)
    names = [queue.add(*make_job(f"thing {number}"))[0] for number in range(4)]
    finished(queue, names[-1])
    assert sorted(e.name for e in queue.folders.root.iterdir()) == names[2:]
    assert queue.status(names[0]).state == "done"


def test_the_status_of_a_finished_job_survives_a_restart(queue, make_queue, make_job):
    job, _ = queue.add(*make_job("vase"))
    status = finished(queue, job)
    queue.close()
    assert make_queue().status(job) == status
    assert make_queue().status("../../etc") is None


def test_the_learning_process_can_be_killed_for_real(queue, make_job):
    job, _ = queue.add(*make_job("waits"))
    folder = queue.folders[job].path
    os.kill(pid_of(folder), signal.SIGKILL)
    eventually(lambda: (folder / "starts").read_text() == "++")
    (folder / "go").touch()
    assert finished(queue, job).state == "done"
    assert JobFolder(folder).result().state is JobState.DONE


@pytest.fixture
def real_jobs(tmp_path):
    """Jobs of a real checkpoint; what learns them may be held up."""
    testing.tiny_open_world(tmp_path / "current")

    def make(label, **options):
        images = {f"{n:02d}.png": encoded_square((200, 30, 200), n) for n in range(8)}
        allowed = LearningOptions(max_accuracy_loss=1.0, max_class_loss=1.0, **options)
        return Job(label, "../../current", allowed), images

    return make


def encoded_square(colour, seed):
    return cv2.imencode(".png", testing.square(colour, seed)[..., ::-1])[1].tobytes()


def test_a_job_that_does_not_train_is_learned_without_a_process(make_queue, real_jobs):
    before = os.getpriority(os.PRIO_PROCESS, 0)
    queue = make_queue(command=("/nowhere",), in_process=10)
    name, _ = queue.add(*real_jobs("purple"))
    status = finished(queue, name)
    assert (status.state, status.message) == (JobState.DONE, "")
    assert os.getpriority(os.PRIO_PROCESS, 0) == before, "only the thread has a low priority"


def test_one_that_trains_gets_a_process_all_the_same(make_queue, real_jobs):
    queue = make_queue(command=("/nowhere",), in_process=10)
    name, _ = queue.add(*real_jobs("purple", epochs=1))
    status = finished(queue, name)
    assert status.state is JobState.FAILED
    assert "process cannot be started" in status.message


@pytest.fixture
def held_up(monkeypatch):
    """Learning begins, and goes on when it is let go or told to end."""
    begun, let_go = threading.Event(), threading.Event()

    def wait(reporter, phase, done=0, total=1):
        begun.set()
        while not let_go.wait(0.01):
            report(reporter, phase, done, total)
        report(reporter, phase, done, total)

    report = learn.JobReporter.report
    monkeypatch.setattr(learn.JobReporter, "report", wait)
    return begun, let_go


def test_a_thread_can_be_cancelled(make_queue, real_jobs, held_up):
    queue = make_queue(in_process=10)
    name, _ = queue.add(*real_jobs("purple"))
    assert held_up[0].wait(20)
    queue.cancel(name)
    assert finished(queue, name).state is JobState.CANCELLED


def test_a_closed_queue_leaves_the_job_of_its_thread_to_the_next(make_queue, real_jobs, held_up):
    queue = make_queue(in_process=10)
    name, _ = queue.add(*real_jobs("purple"))
    assert held_up[0].wait(20)
    queue.close()
    assert list(queue.folders.unfinished()) == [name]
    held_up[1].set()
    assert finished(make_queue(in_process=10), name).state is JobState.DONE
