# SPDX-License-Identifier: Apache-2.0
"""Learning jobs for tests, and a learning process that does as its label says."""

import sys

import pytest

from newfound_core.open_world.job import Job
from tests import checkpoints

# Speaks the format of a real one, without a network: what it does is written in the label.
LEARNER = """
import os, signal, sys, time
from pathlib import Path
from newfound_core.open_world import job as jobs

folder = Path(sys.argv[1])
label = jobs.read_job(folder).label
starts = folder / "starts"
starts.write_text(starts.read_text() + "+" if starts.exists() else "+")
(folder / "pid").write_text(str(os.getpid()))
jobs.append_progress(folder, jobs.JobProgress("training", 0.5, 12.0))
if label == "dies once" and starts.read_text() == "+" or label == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
while label.startswith("waits") and not (folder / "go").exists():
    if jobs.is_cancelled(folder) and label != "waits deaf":
        jobs.write_result(folder, jobs.JobResult("cancelled", "as asked"))
        sys.exit(3)
    time.sleep(0.02)
if label == "forgets":
    accuracy = {"mug": jobs.ClassAccuracy(10, 0.9, 0.5), "new": jobs.ClassAccuracy(5, None, 1.0)}
    jobs.write_result(folder, jobs.JobResult("forgot_too_much", "40 points", accuracy=accuracy))
    sys.exit(3)
(folder / jobs.CHECKPOINT_NAME).mkdir(exist_ok=True)
(folder / jobs.CHECKPOINT_NAME / "what").write_text(label)
accuracy = {"mug": jobs.ClassAccuracy(10, 0.9, 0.8), "cup": jobs.ClassAccuracy(30, 0.5, 0.6)}
jobs.write_result(folder, jobs.JobResult("learned", accuracy=accuracy))
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
    return checkpoints.square


@pytest.fixture(scope="session")
def shipped(tmp_path_factory):
    """A tiny open-world checkpoint with a memory, that knows three colours."""
    return checkpoints.tiny_open_world(tmp_path_factory.mktemp("shipped") / "model")


@pytest.fixture
def region_network(tmp_path):
    """A checkpoint of a tiny region network with random weights, unsure of everything."""
    return checkpoints.tiny_regions(tmp_path / "rpn")
