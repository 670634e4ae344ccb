# SPDX-License-Identifier: Apache-2.0
"""Test helpers: a real ROS client with waits on conditions, not on time, and a node to try.

Used by the tests and benchmarks of every package; needs pytest.
"""

import array
import gc
import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.msg import Log
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.executors import MultiThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from newfound_runtime.container import run, spin
from newfound_runtime.images import Frame
from newfound_runtime.parameters import Parameter as NodeParameter
from newfound_runtime.perception_node import PerceptionNode
from newfound_runtime.rclpy_compat import Receiver

os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")  # nothing leaves this machine
TIMEOUT = 60.0  # s; reached only when something is broken
EVERYTHING_SO_FAR = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)
LOST_AFTER = 10.0  # s; a request without an answer is sent again

UNCONFIGURED = State.PRIMARY_STATE_UNCONFIGURED
INACTIVE = State.PRIMARY_STATE_INACTIVE
ACTIVE = State.PRIMARY_STATE_ACTIVE
FINALIZED = State.PRIMARY_STATE_FINALIZED

TRANSITIONS = {
    "configure": Transition.TRANSITION_CONFIGURE,
    "cleanup": Transition.TRANSITION_CLEANUP,
    "activate": Transition.TRANSITION_ACTIVATE,
    "deactivate": Transition.TRANSITION_DEACTIVATE,
    "shutdown": Transition.TRANSITION_ACTIVE_SHUTDOWN,
}


def eventually(condition: Callable[[], Any], what: str = "", timeout: float = TIMEOUT) -> Any:
    """Wait until the condition is true and return its value; fail after a long while."""
    end = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < end, f"did not happen: {what or condition}"
        time.sleep(0.01)
    return value


def image(width: int = 64, height: int = 48, number: int = 0) -> Image:
    """An rgb8 image whose stamp says its number."""
    message = Image(height=height, width=width, encoding="rgb8", step=3 * width)
    message.header.stamp.sec = number
    message.header.frame_id = f"camera {number}"
    message.data = array.array("B", np.full(height * width * 3, number % 256, np.uint8).tobytes())
    return message


def _own_domains() -> list[int]:
    """ROS domains of this process, in random order; two pytest-xdist workers share none."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    safe = range(1, 102)  # with the default ports
    own = [domain for domain in safe if domain % workers == worker % workers]
    return random.sample(own, len(own))


@pytest.fixture
def ros() -> Iterator["Harness"]:
    """A real ROS client to test a node with, in a domain of its own."""
    harness = Harness()
    yield harness
    harness.close()


class Harness:
    """An executor in a thread and a client node; everything added ends with it.

    Each has a ROS domain of its own, so that it does not see what an earlier one left behind.
    """

    _domains = itertools.cycle(_own_domains())

    def __init__(self) -> None:
        domain = next(self._domains)
        self.environment = {
            **os.environ,
            "ROS_DOMAIN_ID": str(domain),
        }
        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=domain)
        self.executor = MultiThreadedExecutor(8, context=self.context)
        self.client = rclpy.create_node("client", context=self.context)
        self.executor.add_node(self.client)
        self._log: list[Log] = []
        self.client.create_subscription(Log, "/rosout", self._log.append, EVERYTHING_SO_FAR)
        self.nodes: list[Any] = []
        self.processes: list[subprocess.Popen] = []
        self._receivers: list[Receiver] = []
        self._thread = threading.Thread(target=spin, args=(self.executor,), daemon=True)
        self._thread.start()

    def add(self, node_class: type, name: str | None = None, **values: Any) -> Any:
        """Start a node of this class with these parameter values."""
        overrides = [Parameter(key, value=value) for key, value in values.items()]
        node = node_class(name, context=self.context, parameter_overrides=overrides)
        self.nodes.append(node)
        self.executor.add_node(node)
        return node

    def started(self, node_class: type, name: str | None = None, **values: Any) -> Any:
        """Start a node and wait until it is active."""
        node = self.add(node_class, name, **values)
        eventually(lambda: node.state() == ACTIVE, "node active")
        return node

    def process(self, *arguments: str, **environment: str) -> subprocess.Popen:
        """Start a Python process of ours, in the same ROS domain; ended with the harness."""
        child = subprocess.Popen(
            [sys.executable, *arguments],
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(child)
        return child

    def publisher(self, message_type: type, topic: str, reliable: bool = True) -> Any:
        """A publisher; `connected` waits for its subscribers."""
        return self.client.create_publisher(message_type, topic, profile(reliable))

    def collect(self, message_type: type, topic: str, reliable: bool = True) -> list[Any]:
        """A list that fills with what is published on the topic."""
        received: list[Any] = []
        self.client.create_subscription(message_type, topic, received.append, profile(reliable))
        return received

    def receive(self, message_type: type, topic: str, take: Callable[[Any], None]) -> None:
        """Hand messages over at once, in a thread with a wait set of its own: to measure times.

        Through the executor, small answers came 60 to 300 ms later on some machines, and up to
        3 s, while all processes were idle.
        """
        self._receivers.append(
            Receiver(
                self.client,
                message_type,
                topic,
                take,
                profile(True),
                on_error=lambda error: sys.excepthook(type(error), error, error.__traceback__),
                on_incompatible=lambda policy: None,
            )
        )

    def connected(self, publisher: Any, count: int = 1) -> None:
        """Wait until so many subscribers have found the publisher."""
        eventually(lambda: publisher.get_subscription_count() >= count, "publisher connected")
        time.sleep(0.1)  # they must find us, too, and there is no event for that

    def call(self, service_type: type, name: str, request: Any) -> Any:
        """Call a service and return its response."""
        client = self.client.create_client(service_type, name)
        assert client.wait_for_service(TIMEOUT), f"no service {name}"
        futures = [client.call_async(request)]
        asked = time.monotonic()

        def answered() -> Any:
            # A server that was found but has not yet found us back never sees the request.
            nonlocal asked
            if time.monotonic() - asked > LOST_AFTER:
                asked = time.monotonic()
                futures.append(client.call_async(request))
            return next((future for future in futures if future.done()), None)

        answer = eventually(answered, f"answer of {name}")
        self.client.destroy_client(client)
        return answer.result()

    def appears(self, node: str, timeout: float = 240.0) -> None:
        """Wait for a node of another process; on a busy machine importing torch takes long."""
        namespace, _, name = node.rpartition("/")
        full = (name, namespace or "/")
        eventually(lambda: full in self.client.get_node_names_and_namespaces(), node, timeout)

    def becomes_active(self, node: str, timeout: float = 240.0) -> None:
        """Wait until a node of another process is there and active."""
        self.appears(node, timeout)
        eventually(lambda: self.state(node) == ACTIVE, f"{node} active", timeout)

    def state(self, node: str) -> int:
        """The lifecycle state as get_state tells it."""
        return self.call(GetState, f"{node}/get_state", GetState.Request()).current_state.id

    def change(self, node: str, transition: str) -> bool:
        """Ask for a lifecycle transition; whether it succeeded."""
        request = ChangeState.Request()
        request.transition.id = TRANSITIONS[transition]
        return self.call(ChangeState, f"{node}/change_state", request).success

    def set(self, node: str, **values: Any) -> Any:
        """Set parameters at once; the result with its reason."""
        request = SetParametersAtomically.Request()
        request.parameters = [
            Parameter(key, value=value).to_parameter_msg() for key, value in values.items()
        ]
        service = f"{node}/set_parameters_atomically"
        return self.call(SetParametersAtomically, service, request).result

    def logged(self, text: str) -> bool:
        """Whether a node has logged a message with this text."""
        return any(text in message.msg for message in self._log)

    def warnings(self, node: str) -> list[str]:
        """What a node has logged as warnings and errors, in order."""
        logger = node.strip("/").replace("/", ".")
        found = [m for m in self._log if m.name == logger]
        return [message.msg for message in found if message.level >= Log.WARN]

    def diagnostics(self, node: str) -> Callable[[], DiagnosticStatus | None]:
        """A function that gives the newest diagnostic status of a node."""
        arrays = self.collect(DiagnosticArray, "/diagnostics")
        return lambda: next(
            (s for a in reversed(arrays) for s in a.status if s.name == node), None
        )

    def close(self) -> None:
        """End processes, nodes, executor and context."""
        for process in self.processes:
            process.kill()
            process.wait()
        for node in self.nodes:
            node.close()
        for receiver in self._receivers:
            receiver.close()
        rclpy.shutdown(context=self.context)
        self._thread.join(10.0)
        self.executor.shutdown(timeout_sec=5.0)
        for node in [*self.nodes, self.client]:
            node.destroy_node()
        # Log messages go out through the first living node of a name: let go of ours, or those of
        # the next test's node would appear in this one's domain.
        self.nodes.clear()
        gc.collect()


def profile(reliable: bool) -> QoSProfile:
    """Reliable or best effort, deep enough that tests lose nothing by their own slowness."""
    return QoSProfile(
        depth=50,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
    )


def values(status: DiagnosticStatus) -> dict[str, str]:
    """The key-value pairs of a diagnostic status."""
    return {pair.key: pair.value for pair in status.values}


class Echo(PerceptionNode):
    """Answers each frame with its header, after as long as a model would take."""

    NAME = "echo"
    PARAMETERS = (
        NodeParameter("seconds", 0.0, "Time per frame (s).", minimum=0.0, maximum=10.0, live=True),
        NodeParameter(
            "busy", False, "Compute instead of sleeping, holding the interpreter.", live=True
        ),
        NodeParameter("always", False, "Process frames even without a subscriber."),
        NodeParameter("mood", "calm", "To try choices.", choices=("calm", "wild"), live=True),
        NodeParameter("load_seconds", 0.0, "How long the model takes to load."),
        NodeParameter(
            "fail_in", "", "Where to raise: load, process, check, diagnose, unload.", live=True
        ),
    )
    OUTPUTS: ClassVar = {"echo": (Header, 10)}

    def load(self) -> None:
        self.fail("load")
        time.sleep(self.param("load_seconds"))
        self.shapes: list[tuple[int, ...]] = []

    def process(self, frame: Frame) -> None:
        self.fail("process")
        end = time.monotonic() + self.param("seconds")
        while self.param("busy") and time.monotonic() < end:
            sum(range(1000))
        time.sleep(max(0.0, end - time.monotonic()))
        self.shapes = [*self.shapes[-9:], frame.rgb.shape]
        self.publish("echo", frame.header)

    def unload(self) -> None:
        self.fail("unload")

    def check_parameters(self, values: Mapping[str, Any]) -> str | None:
        if values.get("mood") == "wild":
            self.fail("check")
            if values.get("seconds", self.param("seconds")) > 1:
                return "a wild mood goes with at most one second"
        return None

    def needs_every_frame(self) -> bool:
        return self.param("always")

    def diagnose(self) -> Mapping[str, object]:
        self.fail("diagnose")
        return {"device": "cpu", "pid": os.getpid()}

    def fail(self, where: str) -> None:
        if self.param("fail_in") == where:
            raise RuntimeError(f"asked to fail in {where}")


if __name__ == "__main__":
    raise SystemExit(run(Echo))
