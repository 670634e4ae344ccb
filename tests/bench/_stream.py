# SPDX-License-Identifier: Apache-2.0
"""Images into a node and its answers out, for benchmarks."""

import threading
import time
from typing import Any

from sensor_msgs.msg import Image

from newfound_runtime.testing import Harness, eventually, image

SIZE = (640, 480)


class RoundTrip:
    """Sends an image of its own topic and waits for the answer with the same stamp."""

    def __init__(self, harness: Harness, topic: str, answer_type: type, answers: str) -> None:
        self.camera = harness.publisher(Image, topic)
        harness.receive(answer_type, answers, self._take)
        self.message, self.number, self.arrived = image(*SIZE), 0, threading.Event()
        harness.connected(self.camera)
        eventually(self.attempt, f"an answer on {answers}", timeout=120)
        time.sleep(2.0)  # let the subscription settle on the camera's reliability

    def _take(self, answer: Any) -> None:
        if answer.header.stamp.sec == self.number:
            self.arrived.set()

    def attempt(self, timeout: float = 1.0) -> bool:
        """Whether one image is answered in time."""
        self.number += 1
        self.arrived.clear()
        self.message.header.stamp.sec = self.number
        self.camera.publish(self.message)
        return self.arrived.wait(timeout)

    def __call__(self) -> None:
        """One image there and its answer back."""
        # Longer than the heartbeat by which a reliable sender learns of a loss.
        assert self.attempt(timeout=10.0), "an answer was lost"


class Film:
    """Publishes images at an even rate until it is closed."""

    def __init__(self, harness: Harness, topic: str, rate: float, size=SIZE) -> None:
        self._harness, self._rate = harness, rate
        self._camera, self._message = harness.publisher(Image, topic), image(*size)
        self.sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            self._message.header.stamp = self._harness.client.get_clock().now().to_msg()
            self._camera.publish(self._message)
            self.sent += 1
            due += 1 / self._rate

    def close(self) -> None:
        """Stop and wait for the last image."""
        self._stop.set()
        self._thread.join()


def executable(name: str) -> tuple[str, str]:
    """Arguments of Python that run what `ros2 run` would."""
    return "-c", f"from newfound_runtime.executable import main; main({name!r})"


def parameters(**values: object) -> list[str]:
    """Parameter values as arguments of a ROS process."""
    given = [("-p", f"{name}:={_text(value)}") for name, value in values.items()]
    return ["--ros-args", *(part for pair in given for part in pair)]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
