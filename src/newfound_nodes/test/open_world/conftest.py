# SPDX-License-Identifier: Apache-2.0
"""Learning jobs for tests, and a learning process that does as its label says."""

import sys

import pytest

from newfound_core import testing
from newfound_core.learning.job import Job

# Speaks the format of a real one, without a network: what it does is written in the label.
LEARNER = """
import os, signal, sys, time
from pathlib import Path
from newfound_core.learning.job import (
    ClassAccuracy, JobFolder, JobProgress, JobResult, JobState
)

folder = Path(sys.argv[1])
job = JobFolder(folder)
label = job.read().label
starts = folder / "starts"
starts.write_text(starts.read_text() + "+" if starts.exists() else "+")
(folder / "pid").write_text(str(os.getpid()))
job.append_progress(JobProgress(JobState.TRAINING, 0.5, 12.0))
if label == "dies once" and starts.read_text() == "+" or label == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
while label.startswith("waits") and not (folder / "go").exists():
    if job.cancelled and label != "waits deaf":
        job.write_result(JobResult(JobState.CANCELLED, message="as asked"))
        sys.exit(3)
    time.sleep(0.02)
if label == "forgets":
    accuracy = {"mug": ClassAccuracy(10, 0.9, 0.5), "new": ClassAccuracy(5, None, 1.0)}
    rejected = JobState.REJECTED, "forgot_too_much", "40 points"
    job.write_result(JobResult(*rejected, accuracy=accuracy))
    sys.exit(3)
job.result_path.mkdir(exist_ok=True)
(job.result_path / "what").write_text(label)
accuracy = {"mug": ClassAccuracy(10, 0.9, 0.8), "cup": ClassAccuracy(30, 0.5, 0.6)}
job.write_result(JobResult(JobState.DONE, accuracy=accuracy))
"""


@pytest.fixture
def learner(tmp_path):
    """The command of that process."""
    script = tmp_path / "learner.py"
    script.write_text(LEARNER)
    return (sys.executable, str(script))


@pytest.fixture
def make_job():
    """A job and its images."""

    def make(label):
        return Job(label, "../../current"), {"00.jpg": b"\xff\xd8\xff"}

    return make


@pytest.fixture(scope="session")
def square():
    """A picture of a square of a colour on grey noise, uint8 [48, 64, 3]."""
    return testing.square


@pytest.fixture(scope="session")
def shipped(tmp_path_factory):
    """A tiny open-world checkpoint with a memory, that knows three colours."""
    return testing.tiny_open_world(tmp_path_factory.mktemp("shipped") / "model")


@pytest.fixture
def region_network(tmp_path):
    """A checkpoint of a tiny region network with random weights, unsure of everything."""
    return testing.tiny_regions(tmp_path / "regions")
