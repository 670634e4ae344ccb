# SPDX-License-Identifier: Apache-2.0
"""Answers of a node whose model takes 300 ms per frame, against those of an idle node.

Both get images at 30 Hz, in processes of their own; calls alternate between them. The model
sleeps (a GPU), or computes in Python without pause (the worst a model can do). Target:
within 50 ms of the idle node, and outputs at most one frame plus one processing time old.
"""

import threading
import time

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from newfound_runtime.testing import Harness, eventually, image
from tests.bench._timing import interleaved, median_ms, percentile_ms

SECONDS, RATE = 0.3, 30.0


class Caller:
    """Calls one service of one node with a fixed request."""

    def __init__(self, harness: Harness, service_type: type, name: str, *requests) -> None:
        self.client = harness.client.create_client(service_type, name)
        assert self.client.wait_for_service(30.0)
        self.requests, self.next = requests, 0

    def __call__(self) -> None:
        done = threading.Event()
        request = self.requests[self.next % len(self.requests)]
        self.next += 1
        future = self.client.call_async(request)
        future.add_done_callback(lambda _: done.set())
        assert done.wait(30.0), "no answer"


def transition(number: int) -> ChangeState.Request:
    request = ChangeState.Request()
    request.transition.id = number
    return request


def callers(harness: Harness, node: str) -> dict[str, Caller]:
    parameters = SetParameters.Request(
        parameters=[Parameter("mood", value="wild").to_parameter_msg()]
    )
    return {
        "get_state": Caller(harness, GetState, f"/{node}/get_state", GetState.Request()),
        "set_parameters": Caller(harness, SetParameters, f"/{node}/set_parameters", parameters),
        "deactivate / activate": Caller(
            harness, ChangeState, f"/{node}/change_state",
            transition(Transition.TRANSITION_DEACTIVATE),
            transition(Transition.TRANSITION_ACTIVATE),
        ),
    }  # fmt: skip


def start(harness: Harness, name: str, *parameters: str) -> None:
    arguments = ["--ros-args", "-r", f"__node:={name}"]
    for parameter in ("always:=true", *parameters):
        arguments += ["-p", parameter]
    harness.process("-m", "newfound_runtime.testing", *arguments)


def film(harness: Harness, stop: threading.Event) -> None:
    camera = harness.publisher(Image, "/image", reliable=False)
    message = image(640, 480)
    while not stop.wait(1 / RATE):
        message.header.stamp = harness.client.get_clock().now().to_msg()
        camera.publish(message)


def ages(harness: Harness, node: str, count: int) -> list[float]:
    """Seconds from the stamp of a frame to the arrival of its answer."""
    found: list[float] = []

    def take(header: Header) -> None:
        now = harness.client.get_clock().now().nanoseconds * 1e-9
        found.append(now - header.stamp.sec - header.stamp.nanosec * 1e-9)

    subscription = harness.client.create_subscription(Header, f"/{node}/echo", take, 10)
    eventually(lambda: len(found) >= count + 5, timeout=count * 2.0 + 30)
    harness.client.destroy_subscription(subscription)
    return found[5:]  # the first come while the two sides find each other


def run(quick: bool) -> list[dict]:
    harness, rows, stop = Harness(), [], threading.Event()
    camera = threading.Thread(target=film, args=(harness, stop))
    camera.start()
    try:
        start(harness, "idle")
        for name, busy in (("sleeping", "false"), ("computing", "true")):
            start(harness, name, f"seconds:={SECONDS}", f"busy:={busy}")
            idle, slow = callers(harness, "idle"), callers(harness, name)
            oldest = max(ages(harness, name, 10 if quick else 60))
            for call in idle:
                rounds = 20 if quick else 100
                seconds = interleaved({"idle": idle[call], "slow": slow[call]}, rounds)
                a, b = median_ms(seconds["idle"]), median_ms(seconds["slow"])
                rows.append({
                    "model": name, "call": call, "idle_ms": a, "slow_ms": b, "ratio": b / a,
                    "difference_ms": b - a, "slow_p95_ms": percentile_ms(seconds["slow"], 95),
                    "oldest_output_ms": 1e3 * oldest, "bound_ms": 1e3 * (SECONDS + 1 / RATE),
                })  # fmt: skip
            harness.processes.pop().kill()
            time.sleep(1.0)
    finally:
        stop.set()
        camera.join()
        harness.close()
    return rows
