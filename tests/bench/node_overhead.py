# SPDX-License-Identifier: Apache-2.0
"""What the node base costs: image in to message out, against a bare subscriber doing the same.

Two processes side by side, one with the base and one without, each answers every image with
its header; neither has a model. The difference is the price of the mailbox, the worker
thread, the checks and the counters.
"""

import threading
import time

import rclpy
from rclpy.node import Node
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from newfound_runtime.testing import Harness, eventually, image
from tests.bench._timing import interleaved, median_ms, percentile_ms


class Bare(Node):
    """What people write first: everything in the callback."""

    def __init__(self) -> None:
        super().__init__("bare")
        self.answers = self.create_publisher(Header, "/bare/echo", 10)
        self.create_subscription(Image, "/bare/image", self.answer, 5)

    def answer(self, message: Image) -> None:
        import numpy as np

        pixels = np.frombuffer(message.data, np.uint8)
        pixels.reshape(message.height, message.width, 3)
        self.answers.publish(message.header)


class RoundTrip:
    """Sends an image and waits for the answer."""

    def __init__(self, harness: Harness, name: str, message: Image) -> None:
        self.camera = harness.publisher(Image, f"/{name}/image")
        harness.receive(Header, f"/{name}/echo", self.take)
        self.message, self.number, self.arrived = message, 0, threading.Event()
        harness.connected(self.camera)
        eventually(self.attempt)
        time.sleep(2.0)  # let the subscription settle on the camera's reliability

    def take(self, header: Header) -> None:
        if header.stamp.sec == self.number:
            self.arrived.set()

    def attempt(self, timeout: float = 1.0) -> bool:
        self.number += 1
        self.arrived.clear()
        self.message.header.stamp.sec = self.number
        self.camera.publish(self.message)
        return self.arrived.wait(timeout)

    def __call__(self) -> None:
        # Longer than the heartbeat by which a reliable sender learns of a loss.
        assert self.attempt(timeout=10.0), "an answer was lost"
        time.sleep(0.01)


def run(quick: bool) -> list[dict]:
    harness, rows = Harness(), []
    try:
        harness.process("-m", "tests.bench.node_overhead")
        topic = "image_topic:=/echo/image"
        harness.process("-m", "newfound_runtime.testing", "--ros-args", "-p", topic)
        for width, height in ((640, 480), (1280, 720)):
            trips = {n: RoundTrip(harness, n, image(width, height)) for n in ("bare", "echo")}
            seconds = interleaved(trips, rounds=50 if quick else 500)
            # The pause of 10 ms is part of both.
            bare, base = (median_ms(seconds[n]) - 10 for n in ("bare", "echo"))
            rows.append({
                "image": f"{width}x{height}", "bare_ms": bare, "base_ms": base,
                "ratio": base / bare, "added_ms": base - bare,
                "bare_p95_ms": percentile_ms(seconds["bare"], 95) - 10,
                "base_p95_ms": percentile_ms(seconds["echo"], 95) - 10,
                "bare_max_ms": 1e3 * max(seconds["bare"]) - 10,
                "base_max_ms": 1e3 * max(seconds["echo"]) - 10,
            })  # fmt: skip
    finally:
        harness.close()
    return rows


if __name__ == "__main__":
    rclpy.init()
    rclpy.spin(Bare())
