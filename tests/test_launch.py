# SPDX-License-Identifier: Apache-2.0
"""The launch files under the real `ros2 launch`, where a ROS installation brings it."""

import importlib.util
import signal
import subprocess
from importlib.metadata import entry_points

import pytest
import yaml
from rcl_interfaces.srv import GetParameters

from newfound_core.testing import tiny
from newfound_runtime.container import GROUP
from newfound_runtime.testing import ACTIVE, INACTIVE, UNCONFIGURED, eventually
from tests import ROOT

ECHO = "newfound_runtime.testing.Echo"

pytest.importorskip("launch_ros", reason="launch_ros comes only with a ROS installation")
pytest.importorskip("ros2launch", reason="ros2launch comes only with a ROS installation")

NODES = {entry.name: entry.load() for entry in entry_points(group=GROUP)}
FILES = sorted((ROOT / "launch").glob("*.launch.py"))


def module_of(file):
    spec = importlib.util.spec_from_file_location("launch_file", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_every_argument_is_described(file):
    arguments = module_of(file).generate_launch_description().get_launch_arguments()
    assert arguments
    assert [a.name for a in arguments if "." not in a.description] == []


def test_an_argument_sets_a_parameter_that_its_nodes_have():
    suite = module_of(ROOT / "launch/newfound.launch.py")
    for argument, (kinds, parameter, _) in suite.SETTINGS.items():
        for kind in kinds:
            known = {p.name: p for p in (*NODES[kind].COMMON_PARAMETERS, *NODES[kind].PARAMETERS)}
            value = suite.TYPES.get(argument, str)("1")
            assert isinstance(value, type(known[parameter].default)), (argument, kind)
    assert set(suite.ALL) == set(NODES)


@pytest.fixture
def launch(ros, tmp_path):
    """Start a launch file of ours; returns a function that ends it and gives what it printed."""
    started = []

    def start(file, *arguments):
        command = ["ros2", "launch", "newfound_bringup", file, *arguments]
        environment = {**ros.environment, "ROS_LOG_DIR": str(tmp_path), "ROS_HOME": str(tmp_path)}
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append(process)

        def end():
            process.send_signal(signal.SIGINT)
            text, _ = process.communicate(timeout=60)
            assert process.returncode == 0, text
            return text

        return end

    yield start
    for process in started:
        if process.poll() is None:  # the test failed; launch must end its own processes
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("composed", ["true", "false"])
def test_both_nodes_run_for_each_of_two_cameras(ros, launch, tmp_path, composed):
    classifier, places = tiny(tmp_path / "objects"), tiny(tmp_path / "places", "wbn")
    own = tmp_path / "own.yaml"
    own.write_text("/robot/rear/place_categorizer: {ros__parameters: {filter: true}}")
    end = launch(
        "perception.launch.py",
        "namespace:=robot",
        "cameras:=front,rear",
        f"classifier_checkpoint:={classifier}",
        f"places_checkpoint:={places}",
        f"params_file:={own}",
        f"use_composition:={composed}",
    )
    for camera in ("front", "rear"):
        for node in ("adaptive_classifier", "place_categorizer"):
            ros.becomes_active(f"/robot/{camera}/{node}")
    values = {}
    for camera in ("front", "rear"):
        request = GetParameters.Request(names=["image_topic", "checkpoint", "filter"])
        service = f"/robot/{camera}/place_categorizer/get_parameters"
        topic, checkpoint, filtered = ros.call(GetParameters, service, request).values
        values[camera] = filtered.bool_value
        assert (topic.string_value, checkpoint.string_value) == ("image_raw", str(places))
    assert values == {"front": False, "rear": True}
    assert end().count("process has finished cleanly") == (1 if composed == "true" else 4)


@pytest.mark.slow
@pytest.mark.parametrize("node", ["adaptive_classifier", "place_categorizer"])
def test_each_node_has_a_launch_file_of_its_own(ros, launch, tmp_path, node):
    method = "source" if node == "adaptive_classifier" else "bn"
    checkpoint = tiny(tmp_path / "model", method)
    end = launch(f"{node}.launch.py", "cameras:=hand", f"checkpoint:={checkpoint}")
    ros.becomes_active(f"/hand/{node}")
    names = [name for name, _ in ros.client.get_node_names_and_namespaces()]
    assert sorted(set(names) - {"client"}) == [node]
    assert "process has finished cleanly" in end()


@pytest.mark.slow
def test_a_manager_brings_the_suite_up_for_two_cameras(ros, launch, tmp_path):
    arguments = ("nodes:=curator,web_query", "cameras:=a,b", "namespace:=robot")
    end = launch("newfound.launch.py", *arguments, "autostart:=false", "simulation:=true")
    own = [f"/robot/{camera}/{node}" for camera in "ab" for node in ("curator", "sim_camera")]
    for name in ("/robot/web_query", *own):
        ros.appears(name)
        assert ros.state(name) == UNCONFIGURED
    for name in own:
        # Not by its answer: a request that is answered late was sent again, and refused.
        for transition, state in (("configure", INACTIVE), ("activate", ACTIVE)):
            ros.change(name, transition)
            eventually(lambda name=name, state=state: ros.state(name) == state, f"{name} {state}")
    request = GetParameters.Request(names=["detector", "web_query", "fetch_images"])
    values = ros.call(GetParameters, "/robot/b/curator/get_parameters", request).values
    assert values[0].string_value == "open_world_detector"
    assert values[1].string_value == "/robot/web_query"
    assert values[2].integer_value == 0, "simulation.yaml counts"
    assert end().count("process has finished cleanly") == 3


@pytest.mark.slow
def test_the_open_world_detector_starts_with_what_is_shipped(ros, launch, tmp_path):
    base = tmp_path / "knowledge"
    end = launch("open_world_detector.launch.py", "cameras:=hand", f"knowledge_base:={base}")
    ros.becomes_active("/hand/open_world_detector")
    assert (base / "current").exists()
    assert "process has finished cleanly" in end()


def test_the_container_comes_up_and_ends_with_ctrl_c(ros, launch, tmp_path):
    parameters = tmp_path / "robot.yaml"
    parameters.write_text(yaml.safe_dump({
        "/**/container": {"ros__parameters": {"nodes": [f"{ECHO}:rear/second"]}},
    }))  # fmt: skip
    end = launch("container.launch.py", f"params_file:={parameters}", "namespace:=robot")
    ros.becomes_active("/robot/rear/second")
    assert "process has finished cleanly" in end()
