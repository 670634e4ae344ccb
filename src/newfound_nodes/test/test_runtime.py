# SPDX-License-Identifier: Apache-2.0
"""What the process around the nodes does when their callbacks raise."""

import signal
import time

from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import Image
from std_msgs.msg import Empty, Header
from std_srvs.srv import Trigger

from tests.harness import ACTIVE, eventually, image


def test_an_exception_in_a_service_of_one_node_stops_nothing(ros):
    process = ros.process("-m", "tests.broken_service")
    camera = ros.publisher(Image, "/image")
    answers = ros.collect(Header, "/echo/echo")
    client = ros.client.create_client(Trigger, "/echo/explode")
    called = ros.collect(Empty, "/echo/called")
    assert client.wait_for_service(30.0)
    ros.connected(camera)

    def exploded():
        client.call_async(Trigger.Request())  # never answered, and the first may find nobody
        time.sleep(0.2)
        return called

    eventually(exploded)
    # rclpy looks at what became of a callback when the executor next wakes up.
    diagnostics = ros.collect(DiagnosticArray, "/diagnostics")
    eventually(lambda: len(diagnostics) >= 2)
    for number in range(3):
        camera.publish(image(number=number))
        eventually(lambda n=number: answers and answers[-1].stamp.sec == n)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=30)
    assert "a callback raised" in text
    assert "RuntimeError: boom" in text
    assert process.returncode == 0


def test_a_single_node_executable_exits_with_zero_on_ctrl_c(ros):
    process = ros.process("-m", "tests.nodes")
    eventually(lambda: ros.state("/echo") == ACTIVE)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 0, text
    assert "Traceback" not in text
