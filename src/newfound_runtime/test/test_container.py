# SPDX-License-Identifier: Apache-2.0
"""The container as a real process with a real parameter file."""

import re
import signal
import time
from pathlib import Path

import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import GetParameters
from sensor_msgs.msg import Image
from std_msgs.msg import Empty, Header
from std_srvs.srv import Trigger

from newfound_runtime.container import ContainerError, node_class
from newfound_runtime.testing import ACTIVE, UNCONFIGURED, Echo, eventually, image, values

ECHO = "newfound_runtime.testing.Echo"
PARAMETERS = {
    "/container": {"nodes": [f"{ECHO}:first", f"{ECHO}:/rear/second"]},
    "/first": {"image_topic": "/front/image", "mood": "wild"},
    "/rear/second": {"seconds": 0.01},
}


@pytest.fixture
def contain(ros, tmp_path):
    """Start a container with these parameters; returns the process."""

    def start(parameters: dict[str, dict], *rules: str) -> object:
        file = tmp_path / "parameters.yaml"
        nodes = {name: {"ros__parameters": values} for name, values in parameters.items()}
        file.write_text(yaml.safe_dump(nodes))
        arguments = ("-m", "newfound_runtime.container", "--ros-args", "--params-file", str(file))
        return ros.process(*arguments, *(part for rule in rules for part in ("-r", rule)))

    return start


def output(process) -> str:
    """End a process and return what it printed."""
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=30)
    return text


def test_nodes_get_their_names_namespaces_and_parameters_from_one_file(ros, contain):
    contain(PARAMETERS)
    front = ros.publisher(Image, "/front/image")
    rear = ros.publisher(Image, "/rear/image")
    first = ros.collect(Header, "/first/echo")
    second = ros.collect(Header, "/rear/second/echo")
    ros.connected(front)
    ros.connected(rear)

    def answered() -> bool:
        # A subscription that is made anew, since cameras were found to be reliable, misses images.
        front.publish(image(number=1))
        rear.publish(image(number=2))
        return first and second

    eventually(answered)
    assert (first[0].stamp.sec, second[0].stamp.sec) == (1, 2)


def test_a_name_and_namespace_given_to_the_process_leave_the_nodes_theirs(ros, contain):
    renamed = {"/robot/eyes": PARAMETERS["/container"], "/**/first": PARAMETERS["/first"]}
    contain(renamed, "__ns:=/robot", "__node:=eyes")
    for name in ("/robot/first", "/robot/rear/second"):
        eventually(lambda name=name: ros.state(name) == ACTIVE)
    parameters = ros.call(
        GetParameters, "/robot/first/get_parameters", GetParameters.Request(names=["mood"])
    )
    assert parameters.values[0].string_value == "wild"


def test_both_nodes_run_in_one_process(ros, contain):
    first, second = ros.diagnostics("/first"), ros.diagnostics("/rear/second")
    process = contain(PARAMETERS)
    for status in (first, second):
        eventually(lambda s=status: s() and values(s()).get("pid"))
        assert values(status())["pid"] == str(process.pid)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"nodes": ["nothing_of_that_name", f"{ECHO}:first"]}, "nothing_of_that_name"),
        ({"nodes": ["no.such.Module", f"{ECHO}:first"]}, "No module named"),
        ({"nodes": ["os.path", f"{ECHO}:first"]}, "not a ManagedNode"),
        ({"nodes": [f"{ECHO}:bad name", f"{ECHO}:first"]}, "bad name"),
    ],
)
def test_a_node_that_cannot_be_made_is_reported_and_the_others_run(ros, contain, broken, told):
    process = contain({"/container": broken})
    eventually(lambda: ros.state("/first") == ACTIVE)
    assert told in output(process)
    assert process.returncode == 0


def test_a_node_that_fails_to_load_or_process_leaves_the_others_running(ros, contain):
    names = ["loads_not", "processes_not", "wrong", "well"]
    process = contain(
        {
            "/container": {"nodes": [f"{ECHO}:{name}" for name in names]},
            "/loads_not": {"fail_in": "load"},
            "/processes_not": {"fail_in": "process", "always": True},
            "/wrong": {"seconds": "not a number"},
        }
    )
    camera = ros.publisher(Image, "/image")
    answers = ros.collect(Header, "/well/echo")
    ros.connected(camera, count=2)
    for number in range(5):
        camera.publish(image(number=number))
        eventually(lambda n=number: answers and answers[-1].stamp.sec == n)
    eventually(lambda: ros.state("/loads_not") == UNCONFIGURED)
    eventually(lambda: ros.state("/wrong") == UNCONFIGURED)
    assert ros.state("/processes_not") == ACTIVE
    text = output(process)
    assert re.search("asked to fail in load", text)
    assert re.search("asked to fail in process", text)
    assert process.returncode == 0


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_cleanly_even_in_the_middle_of_a_frame(ros, contain, ending):
    process = contain(
        {
            "/container": {"nodes": [f"{ECHO}:first"]},
            "/first": {"seconds": 0.5, "always": True},
        }
    )
    camera = ros.publisher(Image, "/image")
    ros.connected(camera)
    camera.publish(image())
    process.send_signal(ending)
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 0, text
    assert "Traceback" not in text


def test_an_empty_list_is_an_error_that_says_so(contain):
    process = contain({"/container": {"nodes": [""]}})
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "`nodes` is empty" in text


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ("/first: {mood: wild}", "Cannot have a value before ros__parameters"),
        ("/first: {ros__parameters: {mood: [1, a]}}", "Sequence should be of same type"),
        ("/container: {ros__parameters: {nodes: echo}}", "'nodes' to 'echo' of type 'STRING'"),
        ("/container: {ros__parameters: {nodes: [ecko]}}", "no node 'ecko'; the nodes installed"),
    ],
)
def test_a_slip_in_the_parameter_file_is_an_error_without_a_traceback(
    ros, tmp_path, parameters, told
):
    file = tmp_path / "parameters.yaml"
    file.write_text(parameters)
    arguments = ("-m", "newfound_runtime.container", "--ros-args", "--params-file", str(file))
    process = ros.process(*arguments)
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert told in text
    assert "Traceback" not in text


def test_a_class_is_found_by_its_dotted_path_and_a_wrong_name_lists_the_known():
    assert node_class(f"{ECHO}") is Echo
    with pytest.raises(ContainerError, match="the nodes installed here"):
        node_class("toaster")


def test_an_exception_in_a_service_of_one_node_stops_nothing(ros):
    process = ros.process(str(Path(__file__).with_name("broken_service.py")))
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
    # By a name of its own: another node that answers would have it interrupted while it starts.
    name = ("--ros-args", "-r", "__node:=interrupted")
    process = ros.process("-m", "newfound_runtime.testing", *name)
    ros.becomes_active("/interrupted")
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 0, text
    assert "Traceback" not in text


def test_a_second_ctrl_c_does_not_keep_a_node_from_saving_its_state(ros):
    """Of an impatient person, or of systemd and `ros2 launch`, which both send one."""
    name = ("--ros-args", "-r", "__node:=slow_ending")
    process = ros.process(str(Path(__file__).with_name("slow_ending.py")), *name)
    ros.becomes_active("/slow_ending")
    process.send_signal(signal.SIGINT)
    while "saving" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 0, text
    assert "saved" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("delay", [0.05, 0.3, 1.0])
def test_ctrl_c_during_start_up_prints_no_traceback(ros, delay, tmp_path):
    """At any moment: while libraries are imported, nodes are made, a model is loaded."""
    script, begun = tmp_path / "echo", tmp_path / "begun"
    script.write_text(  # as the entry point of an executable calls it
        "import sys\nfrom newfound_runtime.executable import main\n"
        f"open({str(begun)!r}, 'w').close()\nsys.exit(main({ECHO!r}))"
    )
    process = ros.process(str(script), "--ros-args", "-p", "load_seconds:=2.0")
    eventually(begun.exists)  # before that Python itself may be starting, and print what it likes
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=30)
    assert "Traceback" not in text
