# SPDX-License-Identifier: Apache-2.0
"""The launch files under the real `ros2 launch`, where a ROS installation brings it."""

import importlib.util
import signal
import subprocess
from importlib.metadata import entry_points

import cv2
import psutil
import pytest
import yaml
from rcl_interfaces.srv import GetParameters
from sensor_msgs.msg import CompressedImage

from newfound_core.testing import COLOURS, square, tiny, tiny_open_world
from newfound_msgs.srv import AddUnknownClass, ListClasses
from newfound_runtime.container import GROUP
from newfound_runtime.testing import ACTIVE, INACTIVE, UNCONFIGURED, eventually, values
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


class Launched:
    """A running `ros2 launch`, everything it prints, and how it ended."""

    def __init__(self, command, environment, folder):
        self.folder = folder  # its temporary files
        self.log = folder / "output.txt"
        with self.log.open("w") as file:
            self.process = subprocess.Popen(
                command, env=environment, stdout=file, stderr=subprocess.STDOUT, text=True
            )

    def wait(self, timeout=60.0):
        """The exit code and what was printed."""
        return self.process.wait(timeout), self.log.read_text()

    def interrupt(self):
        """End it as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        return self.wait()

    def __call__(self):
        """End it, cleanly, and return what it printed."""
        code, text = self.interrupt()
        assert code == 0, text
        return text

    def children(self):
        """Its processes, by number."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        return {child.pid: child for child in found if child.status() != psutil.STATUS_ZOMBIE}

    def left_behind(self):
        """Temporary files of the launch that are still there."""
        return [path.name for path in self.folder.iterdir() if path != self.log]


@pytest.fixture
def launch(ros, tmp_path):
    """Start a launch file of ours; calling what it returns ends it and gives what it printed."""
    started = []

    def start(file, *arguments):
        folder = tmp_path / f"temporary_{len(started)}"
        folder.mkdir()
        logs = tmp_path / "logs"
        environment = {**ros.environment, "ROS_LOG_DIR": str(logs), "ROS_HOME": str(logs)}
        environment["TMPDIR"] = str(folder)
        command = ["ros2", "launch", "newfound_bringup", file, *arguments]
        started.append(Launched(command, environment, folder))
        return started[-1]

    yield start
    for launched in started:
        if launched.process.poll() is None:  # the test failed; launch must end its own processes
            launched.interrupt()


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
    filters = {}
    for camera in ("front", "rear"):
        request = GetParameters.Request(names=["image_topic", "checkpoint", "filter"])
        service = f"/robot/{camera}/place_categorizer/get_parameters"
        topic, checkpoint, filtered = ros.call(GetParameters, service, request).values
        filters[camera] = filtered.bool_value
        assert (topic.string_value, checkpoint.string_value) == ("image_raw", str(places))
    assert filters == {"front": False, "rear": True}
    assert end().count("process has finished cleanly") == (1 if composed == "true" else 4)


@pytest.mark.slow
@pytest.mark.parametrize("node", ["adaptive_classifier", "place_categorizer"])
def test_each_node_has_a_launch_file_of_its_own(ros, launch, tmp_path, node):
    method = "source" if node == "adaptive_classifier" else "bn"
    checkpoint = tiny(tmp_path / "model", method)
    end = launch(f"{node}.launch.py", "cameras:=hand", f"checkpoint:={checkpoint}")
    ros.becomes_active(f"/hand/{node}")
    # Those that begin with _ are hidden, such as the daemon of the command ros2.
    names = {name for name, _ in ros.client.get_node_names_and_namespaces() if name[0] != "_"}
    assert names - {"client"} == {node}
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
    found = ros.call(GetParameters, "/robot/b/curator/get_parameters", request).values
    assert found[0].string_value == "open_world_detector"
    assert found[1].string_value == "/robot/web_query"
    assert found[2].integer_value == 0, "simulation.yaml counts"
    assert end().count("process has finished cleanly") == 3


@pytest.mark.slow
def test_the_open_world_detector_starts_with_what_is_shipped(ros, launch, tmp_path):
    base = tmp_path / "knowledge"
    end = launch("open_world_detector.launch.py", "cameras:=hand", f"knowledge_base:={base}")
    ros.becomes_active("/hand/open_world_detector")
    assert (base / "current").exists()
    assert "process has finished cleanly" in end()


@pytest.mark.slow
@pytest.mark.parametrize("composed", ["true", "false"])
def test_two_cameras_share_knowledge_beside_object_memory_and_console(
    ros, launch, tmp_path, composed
):
    shipped = tiny_open_world(tmp_path / "shipped")
    end = launch(
        "newfound.launch.py",
        "nodes:=open_world_detector,object_memory",
        "console:=true",
        "console_port:=0",
        "cameras:=front,rear",
        "shared_knowledge:=true",
        "use_sim_time:=true",
        "target_frame:=map",
        "image_topic:=color/image",
        "depth_topic:=color/depth",
        "image_transport:=compressed",
        f"detector_checkpoint:={shipped}",
        f"knowledge_base:={tmp_path / 'base'}",
        f"object_database:={tmp_path / 'objects.db'}",
        "proposer:=whole_image",
        f"use_composition:={composed}",
    )
    front, rear = (f"/{camera}/open_world_detector" for camera in ("front", "rear"))
    for name in (front, rear, "/object_memory", "/console"):
        ros.becomes_active(name)
    request = GetParameters.Request(names=["knowledge_owner", "use_sim_time", "positions"])
    for name, owner in ((front, ""), (rear, front)):
        found = ros.call(GetParameters, f"{name}/get_parameters", request).values
        assert [found[0].string_value, found[1].bool_value, found[2].bool_value] == [
            owner,
            True,
            True,
        ]
    names = ["target_frame", "image_topic", "image_transport", "depth_topic"]
    request = GetParameters.Request(names=names)
    for name in (front, rear, "/object_memory"):
        found = ros.call(GetParameters, f"{name}/get_parameters", request).values
        told = [value.string_value for value in found]
        assert told == ["map", "color/image", "compressed", "color/depth"], name
    listed = ros.call(ListClasses, f"{rear}/list_classes", ListClasses.Request())
    assert sorted(c.label for c in listed.knowledge.classes) == sorted(COLOURS)
    assert end().count("process has finished cleanly") == (2 if composed == "true" else 4)


@pytest.fixture
def echo_file(tmp_path):
    """A parameter file that lists one small node."""
    parameters = tmp_path / "robot.yaml"
    parameters.write_text(yaml.safe_dump({
        "/**/container": {"ros__parameters": {"nodes": [f"{ECHO}:rear/second"]}},
    }))  # fmt: skip
    return f"params_file:={parameters}"


def test_the_container_comes_up_and_ends_with_ctrl_c(ros, launch, echo_file):
    end = launch("container.launch.py", echo_file, "namespace:=robot")
    ros.becomes_active("/robot/rear/second")
    assert "process has finished cleanly" in end()
    assert end.left_behind() == []


def killed(launched):
    """Kill the container with SIGKILL; its process number."""
    # Direct children only: a learning process has the container's command line until its exec.
    found = psutil.Process(launched.process.pid).children()
    [container] = [p for p in found if "container" in p.cmdline()[1]]
    container.kill()
    return container.pid


def test_a_killed_container_is_back_within_seconds(ros, launch, echo_file):
    end = launch("container.launch.py", echo_file)
    ros.becomes_active("/rear/second")
    diagnostics = ros.diagnostics("/rear/second")
    dead = killed(end)
    found = eventually(
        lambda: (s := diagnostics()) and values(s).get("pid") not in (None, str(dead)) and s,
        "diagnostics of another process",
        timeout=30.0,
    )
    assert int(values(found)["pid"]) in end.children()
    assert end.process.poll() is None
    ros.becomes_active("/rear/second")
    text = end()
    assert "process has died" in text
    assert end.left_behind() == []


@pytest.mark.slow
def test_knowledge_is_whole_after_the_container_was_killed(ros, launch, tmp_path):
    """Killed while a class is being learned: the job is resumed, and nothing is lost."""
    shipped = tiny_open_world(tmp_path / "shipped")
    end = launch(
        "newfound.launch.py",
        "nodes:=open_world_detector",
        f"detector_checkpoint:={shipped}",
        f"knowledge_base:={tmp_path / 'base'}",
        "proposer:=whole_image",
    )
    node = "/camera/open_world_detector"
    ros.becomes_active(node)
    images = [
        CompressedImage(
            format="png", data=cv2.imencode(".png", square((230, 220, 40), n))[1].tobytes()
        )
        for n in range(4)
    ]
    request = AddUnknownClass.Request(label="lemon", images=images)
    added = ros.call(AddUnknownClass, f"{node}/add_unknown_class", request)
    assert added.result == added.RESULT_OK, added.message
    killed(end)

    def known():
        answer = ros.call(ListClasses, f"{node}/list_classes", ListClasses.Request())
        return [c.label for c in answer.knowledge.classes] if answer.result == 0 else []

    ros.becomes_active(node)
    eventually(lambda: set(known()) == {*COLOURS, "lemon"}, "learned after the kill", 120.0)
    end()


def test_without_respawn_a_killed_container_fails_the_launch(ros, launch, echo_file):
    launched = launch("container.launch.py", echo_file, "respawn:=false")
    ros.becomes_active("/rear/second")
    killed(launched)
    code, text = launched.wait()
    assert code != 0
    assert "died with exit code -9, and respawn is off" in text
    assert launched.left_behind() == []


@pytest.mark.slow
def test_a_process_that_keeps_dying_fails_the_launch(launch, tmp_path):
    nothing = tmp_path / "nothing.yaml"
    nothing.write_text("/container: {ros__parameters: {nodes: ['no.such.Node']}}")
    code, text = launch("container.launch.py", f"params_file:={nothing}").wait(120.0)
    assert code != 0
    assert "ended 5 times in a row" in text
    assert text.count("process started with pid") == 5


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["params_file:=no_such_file.yaml"], "params_file: there is no file"),
        (["nodes:=teapot"], "no node teapot"),
        (["simulation:=true", "rate:=fast"], "rate:=fast is not a number"),
        (["checkpoint:=model"], "use classifier_checkpoint"),
    ],
)
def test_what_cannot_be_met_ends_the_launch_with_an_error(launch, arguments, error):
    launched = launch("newfound.launch.py", *arguments)
    code, text = launched.wait()
    assert code != 0
    assert error in text
    assert "Traceback" not in text
    assert "process started" not in text
    assert launched.left_behind() == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: [1\n b", "own.yaml is not YAML: while parsing"),
        ("3", "own.yaml has no nodes"),
        ("/container: {ros__parameters: [3]}", "ros__parameters of /container is not"),
    ],
)
def test_a_parameter_file_that_cannot_be_read_is_an_error_of_one_line(tmp_path, text, error):
    suite, own = module_of(ROOT / "launch/newfound.launch.py"), tmp_path / "own.yaml"
    own.write_text(text)
    with pytest.raises(ValueError, match=error) as raised:
        list(suite._entries(suite._read(str(own))[1]))
    assert "\n" not in str(raised.value)


def test_a_name_in_the_file_that_no_node_has_is_warned_about(ros, launch, tmp_path):
    own = tmp_path / "own.yaml"
    nodes = ["/**/web_query", "/robot/web_query", "/**/curator", "/rear/web_query", "/**/webquery"]
    own.write_text(yaml.safe_dump({name: {"ros__parameters": {}} for name in nodes}))
    end = launch("web_query.launch.py", "namespace:=robot", f"params_file:={own}")
    ros.becomes_active("/robot/web_query")
    warned = [line for line in end().splitlines() if "no node launched here" in line]
    assert len(warned) == 2
    assert "is called /**/webquery," in warned[0]
    assert "is called /rear/web_query," in warned[1]


def importing_torch(process):
    return any("torch" in region.path for region in process.memory_maps())


def test_ctrl_c_while_torch_is_being_imported_prints_no_traceback(launch, tmp_path):
    checkpoint = tiny(tmp_path / "model", "source")
    launched = launch("adaptive_classifier.launch.py", f"checkpoint:={checkpoint}")
    children = launched.children
    eventually(lambda: any(importing_torch(child) for child in children().values()), "torch")
    _, text = launched.interrupt()
    assert "Traceback" not in text
    assert launched.left_behind() == []


@pytest.mark.parametrize(
    ("pattern", "name", "meant"),
    [
        ("/**", "/robot/curator", True),
        ("/**/curator", "/curator", True),
        ("/**/curator", "/robot/front/curator", True),
        ("/*/curator", "/front/curator", True),
        ("/*/curator", "/robot/front/curator", False),
        ("/front/curator", "/robot/front/curator", False),
        ("/robot/**", "/robot/front/curator", True),
        ("/**/front/*", "/robot/front/curator", True),
    ],
)
def test_patterns_of_a_parameter_file_mean_what_they_mean_to_ros(pattern, name, meant):
    assert module_of(ROOT / "launch/newfound.launch.py")._matches(pattern, name) is meant
