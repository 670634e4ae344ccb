# SPDX-License-Identifier: Apache-2.0
"""Checkpoints small enough that a node with a real model starts at once; a learning process."""

import sys

import numpy as np
import pytest

from newfound_core.learning.job import Job
from newfound_core.packages.keys import SigningKey
from newfound_runtime.testing import eventually, image
from newfound_runtime.testing import ros as ros  # a fixture

# Speaks the format of a real one, without a network: what it does is written in the label.
LEARNER = """
import os, signal, sys, time
from pathlib import Path
from newfound_core.learning.job import ClassAccuracy, JobProgress, JobResult, JobState
from newfound_core.learning.job_folder import JobFolder

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


@pytest.fixture
def key(tmp_path):
    """Of a robot that signs packages and trusts itself; in the folder `keys`."""
    made = SigningKey.create(tmp_path / "keys")
    (tmp_path / "keys" / "trusted").mkdir()
    (tmp_path / "keys" / "trusted" / "myself.pub").write_text(made.public.text)
    return made


@pytest.fixture
def checkpoint(tmp_path):
    """Writes a checkpoint of a tiny random network and returns its folder."""

    def make(method="source", name="", **options):
        from newfound_core.testing import tiny

        return tiny(tmp_path / (name or method), method, **options)

    return make


@pytest.fixture
def picture():
    """An image message with noise of its own, whose stamp says its number."""
    import array

    def make(number=0, brightness=1.0):
        message = image(64, 48, number)
        pixels = np.random.default_rng(number).integers(0, 255, 64 * 48 * 3) * brightness
        message.data = array.array("B", pixels.astype(np.uint8).tobytes())
        return message

    return make


@pytest.fixture
def stream(ros, picture):
    """A camera for a node: sends pictures one by one, each once the last was processed."""

    class Camera:
        def __init__(self, topic="/image"):
            from sensor_msgs.msg import Image

            self.publisher, self.number = ros.publisher(Image, topic), 0

        def connect(self, node):
            ros.connected(self.publisher)
            eventually(lambda: node._input.reliability() == "reliable", "reliable subscription")
            return self

        def send(self, node, count=1, brightness=1.0):
            for _ in range(count):
                counters = node._input.counters
                before = counters.processed + counters.failed
                self.number += 1
                self.publisher.publish(picture(self.number, brightness))
                eventually(lambda c=counters, b=before: c.processed + c.failed > b)

    return Camera
