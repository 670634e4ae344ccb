# SPDX-License-Identifier: Apache-2.0
"""The console on a real stack: detector, curator, object memory; a camera shows squares."""

import array
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sensor_msgs.msg import Image

from newfound_console.node import Console
from newfound_core.object_memory import Sighting
from newfound_core.testing import square, tiny_open_world
from newfound_msgs.msg import LabelCandidate
from newfound_msgs.srv import QueryLabel
from newfound_nodes.curation.node import Curator
from newfound_nodes.object_memory.node import ObjectMemoryNode
from newfound_nodes.open_world.node import OpenWorldDetector
from newfound_runtime.testing import Harness, image

# To the tiny network, all but red are unknown, and no two of them are the same thing.
COLOURS = {
    "red": (220, 40, 40),
    "yellow": (250, 250, 5),
    "mint": (5, 250, 170),
    "magenta": (250, 5, 170),
    "navy": (5, 5, 170),
    "maroon": (90, 5, 5),
    "petrol": (5, 90, 90),
}
DETECTOR = "/open_world_detector"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)


# Speaks the format of a learning process, and does nothing until it is cancelled.
WAITING = """
import sys, time
from pathlib import Path
from newfound_core.learning.job import JobProgress, JobResult, JobState
from newfound_core.learning.job_folder import JobFolder
job = JobFolder(Path(sys.argv[-1]))
job.append_progress(JobProgress(JobState.PREPARING, 0.4, 20.0))
while not job.cancelled:
    time.sleep(0.02)
job.write_result(JobResult(JobState.CANCELLED, message="as asked"))
"""


class Camera:
    """Shows a square of the colour that it is told to, ten times a second."""

    def __init__(self, ros: Harness, topic: str = "/bench/image_raw") -> None:
        self.colour = "red"
        self.turning = False  # each image another side of the square
        self.paused = False
        self._publisher = ros.publisher(Image, topic)
        self._number = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.wait(0.1):
            if self.paused:
                continue
            self._number += 1
            pixels = square(COLOURS[self.colour], self._number)
            if self.turning:
                pixels[: 8 + self._number % 6] = 110
            message = image(pixels.shape[1], pixels.shape[0], self._number)
            message.header.frame_id = "camera"
            message.data = array.array("B", pixels.tobytes())
            self._publisher.publish(message)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()


class Stack:
    """Everything that a test of the page needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ros = ros = Harness()
        self.suggestions: dict[str, float] = {"lemon": 0.8, "duster": 0.1}
        ros.client.create_service(QueryLabel, "/web_query/query_label", self._query)
        self.camera = Camera(ros)
        self.detector = ros.started(
            OpenWorldDetector,
            checkpoint=str(tiny_open_world(folder / "model")),
            knowledge_base=str(folder / "knowledge"),
            image_topic="/bench/image_raw",
            proposer="whole_image",
            announce_after=3,
            same_similarity=0.998,
            same_place_similarity=0.998,
            crop_gap=1,
            learning_threads=1,
            learning_niceness=0,
            max_accuracy_loss=1.0,
            max_class_loss=1.0,
            adapt=True,
        )
        self.curator = ros.started(
            Curator,
            state_folder=str(folder / "curator"),
            fetch_images=0,
            question_delay=0.1,
            questions_per_minute=0.0,
            retry_delay=0.1,
        )
        self.memory = ros.started(ObjectMemoryNode, database=str(folder / "objects.db"))
        for label, x in (("mug", 0.2), ("", -0.3)):
            place = ("map", (x, 0.0, 0.8), (0.0, 0.0, 0.0, 1.0), (0.1, 0.1, 0.1), 0.01)
            self.memory.memory.see([Sighting(*place, time.time_ns(), label)])
        self.console = ros.started(Console, port=0)

    @contextmanager
    def slow_learning(self) -> Iterator[None]:
        """Learning processes wait to be cancelled."""
        queue = self.detector.session.jobs
        before = queue._command, queue._in_process
        queue._command, queue._in_process = (sys.executable, "-c", WAITING, "--job"), None
        yield
        queue._command, queue._in_process = before

    def show(self, colour: str) -> None:
        """Show another thing, after a while in which nothing was to be seen."""
        self.camera.colour = colour
        store = self.detector.session._unknowns
        with store._lock:
            store._tracks.clear()

    @property
    def address(self) -> str:
        return self.console.address

    def _query(self, request: QueryLabel.Request, response: QueryLabel.Response):
        response.candidates = [
            LabelCandidate(label=label, confidence=sure, provider="test")
            for label, sure in self.suggestions.items()
        ]
        return response

    def close(self) -> None:
        self.camera.close()
        self.ros.close()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One for all tests of the page: it takes seconds to start."""
    made = Stack(tmp_path_factory.mktemp("console"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium; Playwright's own is never downloaded."""
    if not CHROMIUM:
        # CI has it: .ci/run installs it, and says that it must be there.
        assert not os.environ.get("NEWFOUND_CHROMIUM"), "no chromium, but it must be there"
        pytest.skip("no Chromium: apt install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def _matters(line: Any) -> bool:
    """Whether a line of the browser's log is a complaint; a request that is refused is not."""
    return line.type == "error" and "409 (Conflict)" not in line.text


@pytest.fixture
def tab(stack: Stack, browser: Any) -> Iterator[Any]:
    """A page of the console; anything that the browser complains about fails the test."""
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: complaints.append(line.text) if _matters(line) else None)
    page.goto(stack.address)
    yield page
    page.close()
    assert complaints == []
