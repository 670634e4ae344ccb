# SPDX-License-Identifier: Apache-2.0
"""The whole suite, for one camera or several.

    ros2 launch newfound_bringup newfound.launch.py cameras:=front,rear namespace:=robot
    ros2 launch newfound_bringup newfound.launch.py simulation:=true

The first runs /robot/front/adaptive_classifier on /robot/front/image_raw, and so on, and one
/robot/web_query for all of them. The other launch files include this one.

A process that ends is started again (`respawn`). When one keeps dying, or dies with
`respawn:=false`, the launch ends with a non-zero exit code, for a supervisor such as systemd.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import launch.logging
import yaml
from ament_index_python.packages import get_package_share_path
from launch import LaunchContext, LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
)
from launch.event_handlers import OnShutdown
from launch.events.process import ProcessExited
from launch.substitutions import EnvironmentVariable, LaunchConfiguration
from launch_ros.actions import Node

CONFIG = get_package_share_path("newfound_bringup") / "config"
IMAGE_NODES = ("adaptive_classifier", "place_categorizer", "open_world_detector", "segmenter")
SUITE = (*IMAGE_NODES[:3], "curator", "web_query")
ALL = (*SUITE, "segmenter", "object_memory", "console", "sim_camera")
FOR_THE_ROBOT = (
    "web_query",
    "object_memory",
    "console",
)  # the others are there once for each camera
# The simulated camera is a process of its own, as a driver is; so is the console, whose browsers
# must not hold up a frame.
APART = ("sim_camera", "console")
PACKAGES = {  # else newfound_nodes
    "web_query": "newfound_web",
    "sim_camera": "newfound_sim",
    "console": "newfound_console",
}

RESPAWN_DELAY = 2.0  # s before a process is started again
SHORT_LIFE = 60.0  # s; a process that ends sooner after its start counts as a failed start
MAX_FAILED_STARTS = 5  # in a row, after which the launch gives up
SIGTERM_TIMEOUT = "30"  # s after Ctrl-C: adapted statistics may have to be saved

CLASSIFIER, PLACES, DETECTOR, SEGMENTER = ((kind,) for kind in IMAGE_NODES)
IMAGE_READERS, DEPTH_NODES = (*IMAGE_NODES, "object_memory"), (*DETECTOR, "object_memory")
WEB, CAMERA, CONSOLE = ("web_query",), ("sim_camera",), ("console",)
BOOLEAN = ("true", "false", "True", "False")
# Arguments that set parameters: the nodes, the parameter, what it is.
SETTINGS = {
    "image_topic": (
        IMAGE_READERS,
        "image_topic",
        "Topic of the images, in the camera's namespace",
    ),
    "image_transport": (IMAGE_READERS, "image_transport", "raw or compressed"),
    "device": (IMAGE_NODES, "device", "cpu, cuda or cuda:1"),
    "checkpoint": (IMAGE_NODES, "checkpoint", "Model, where `nodes` names one node that has one"),
    "classifier_checkpoint": (CLASSIFIER, "checkpoint", "Model of the adaptive classifier"),
    "places_checkpoint": (PLACES, "checkpoint", "Model of the place categorizer"),
    "detector_checkpoint": (DETECTOR, "checkpoint", "First model of the detector"),
    "segmenter_checkpoint": (SEGMENTER, "checkpoint", "First model of the segmenter"),
    "proposer": (
        DETECTOR,
        "proposer",
        "How objects are found: depth, fused, regions or whole_image",
    ),
    "proposer_checkpoint": (DETECTOR, "proposer_checkpoint", "Model for regions and fused"),
    "depth_topic": (DEPTH_NODES, "depth_topic", "Depth images, in the camera's namespace"),
    "camera_info_topic": (DEPTH_NODES, "camera_info_topic", "Calibration of the depth images"),
    "target_frame": (DEPTH_NODES, "target_frame", "Frame of tf2 for positions, such as map"),
    "object_database": (("object_memory",), "database", "SQLite file of the object memory"),
    "knowledge_base": (
        DETECTOR,
        "knowledge_base",
        "Folder of learned classes; one camera, or shared",
    ),
    "segmenter_knowledge_base": (
        SEGMENTER,
        "knowledge_base",
        "Folder of learned segments; one camera",
    ),
    "library_folder": (WEB, "library_folder", "Folder of labelled images"),
    "image_folder": ((*WEB, "curator"), "image_folder", "Where fetched images go"),
    "contact": (WEB, "contact", "E-mail or address told to servers"),
    "console_host": (CONSOLE, "host", "Address of the operator's page; 0.0.0.0: for others, too"),
    "console_port": (CONSOLE, "port", "Port of the operator's page"),
    "source": (CAMERA, "source", "Clip, scenario, image folder or video"),
    "rate": (CAMERA, "rate", "Simulated frames per second, 0 as recorded"),
    "loop": (CAMERA, "loop", "Whether the simulated camera begins anew, true or false"),
    "autostart": (ALL, "autostart", "false under a lifecycle manager"),
}
ARGUMENTS = {  # name: default, description
    "nodes": (
        ",".join(SUITE),
        "What to run, separated by commas; empty: the container with the nodes that params_file "
        "lists.",
    ),
    "cameras": ("camera", "Namespaces of the cameras, separated by commas; each gets its nodes."),
    "namespace": ("", "Above those of the cameras."),
    "console": ("false", "The operator's page, besides: http://localhost:8420/."),
    "shared_knowledge": (
        "false",
        "The detectors of all cameras share the knowledge base of the first one's.",
    ),
    "use_sim_time": ("false", "Take the time from /clock, for bags that are played with --clock."),
    "simulation": ("false", "A simulated camera in each namespace, with simulation.yaml."),
    "params_file": ("", "YAML file, or the name of one in config/, that wins over those there."),
    "use_composition": ("true", "One process for all nodes, with one copy of torch, or one each."),
    "respawn": ("true", "Start a process again that ended; false: end the launch, non-zero."),
    "log_level": ("info", "debug, info, warn, error or fatal."),
}
CHOICES = {
    "console": BOOLEAN,
    "shared_knowledge": BOOLEAN,
    "use_sim_time": BOOLEAN,
    "simulation": BOOLEAN,
    "use_composition": BOOLEAN,
    "respawn": BOOLEAN,
    "autostart": ("", *BOOLEAN),
    "loop": ("", *BOOLEAN),
}


def _true(text: str) -> bool:
    return text.lower() == "true"


TYPES = {
    "rate": float,
    "console_port": int,
    "loop": _true,
    "autostart": _true,
}  # of these arguments; else text


def generate_launch_description() -> LaunchDescription:
    described = ARGUMENTS | {
        name: ("", f"{what}; empty: as in the parameter files.")
        for name, (_, _, what) in SETTINGS.items()
    }
    profile = "FASTRTPS_DEFAULT_PROFILES_FILE"
    return LaunchDescription(
        [
            *(
                DeclareLaunchArgument(
                    name, default_value=default, description=what, choices=CHOICES.get(name)
                )
                for name, (default, what) in described.items()
            ),
            # Shared memory that holds camera images, unless the user has a profile of his own.
            SetEnvironmentVariable(
                profile, EnvironmentVariable(profile, default_value=str(CONFIG / "fastdds.xml"))
            ),
            OpaqueFunction(function=_processes),
        ]
    )


def _processes(context: LaunchContext) -> list:
    """A container and the simulated cameras, or a process for each node."""
    given = {n: LaunchConfiguration(n).perform(context) for n in (*ARGUMENTS, *SETTINGS)}
    base = f"/{given['namespace'].strip('/')}".rstrip("/")
    simulated = _true(given["simulation"])
    kinds = _names(given["nodes"]) + (["sim_camera"] if simulated else [])
    kinds += ["console"] if _true(given["console"]) and "console" not in kinds else []
    _check(kinds, given)
    own = _read(given["params_file"]) if given["params_file"] else None
    places = [
        (kind, base if kind in FOR_THE_ROBOT else f"{base}/{camera}")
        for camera in _names(given["cameras"])
        for kind in kinds
    ]
    places = list(dict.fromkeys(places))
    values = {f"{where}/{kind}": _chosen(kind, given) for kind, where in places}
    _share(values, base, given)
    names = list(values)
    if _true(given["use_composition"]) or not kinds:
        places = _composed(places, base, values)
    if own and not kinds:
        names = [f"{base}/{name}" for name in _listed(own[1])]
    if own:
        _warn_about_unused(*own, [*names, f"{base}/container"])
    # Parameter files are made for the processes and removed when the launch ends, however it does:
    # a TemporaryDirectory is cleaned up at the interpreter's exit, too.
    made = tempfile.TemporaryDirectory(prefix="newfound_launch_")
    # Later files win: the shipped ones, how nodes are placed here, the user's, the arguments.
    # All but the arguments name nodes by pattern, as a full name would win.
    files = [
        *(CONFIG / f"{kind}.yaml" for kind in kinds),
        *([CONFIG / "simulation.yaml"] if simulated else []),
        _write(_wiring(base, given, kinds), Path(made.name, "namespaces.yaml")),
        *([own[0]] if own else []),
        *([_write(values, Path(made.name, "arguments.yaml"))] if any(values.values()) else []),
    ]
    respawn = _true(given["respawn"])
    return [
        RegisterEventHandler(OnShutdown(on_shutdown=lambda *_: made.cleanup())),
        *(_process(kind, where, files, given["log_level"], respawn) for kind, where in places),
    ]


def _check(kinds: list[str], given: dict[str, str]) -> None:
    """Refuse arguments that cannot be met, before anything is started."""
    if unknown := set(kinds) - set(ALL):
        raise ValueError(f"no node {', '.join(unknown)}; there are: {', '.join(ALL)}")
    if not kinds and not given["params_file"]:
        raise ValueError("nothing to run: give params_file, or name nodes")
    models = [kind for kind in kinds if kind in IMAGE_NODES]
    if given["checkpoint"] and len(models) != 1:
        raise ValueError(
            f"checkpoint:={given['checkpoint']} could mean the model of any of "
            f"{', '.join(models) or 'no node'}: use classifier_checkpoint, places_checkpoint, "
            "detector_checkpoint or segmenter_checkpoint"
        )


def _share(values: dict[str, dict], base: str, given: dict[str, str]) -> None:
    """Let the detectors of further cameras follow that of the first one."""
    first, *others = _names(given["cameras"])
    if _true(given["shared_knowledge"]):
        for camera in others:
            values.get(f"{base}/{camera}/open_world_detector", {})["knowledge_owner"] = (
                f"{base}/{first}/open_world_detector"
            )


def _wiring(base: str, given: dict[str, str], kinds: list[str]) -> dict[str, dict]:
    """What the namespaces chosen here mean to the nodes in them."""
    wired = {f"/**/{kind}": {"image_topic": "image_raw"} for kind in IMAGE_NODES}
    wired["/**/curator"] = {"web_query": f"{base}/web_query"}
    if "object_memory" in kinds:
        places = [f"{base}/{camera}" for camera in _names(given["cameras"])]
        wired["/**/object_memory"] = {"cameras": places, "image_topic": "image_raw"}
        wired["/**/open_world_detector"] |= {"positions": True, "camera_info_topic": "camera_info"}
    if _true(given["use_sim_time"]):
        wired["/**"] = {"use_sim_time": True}
    return wired


def _composed(places: list, base: str, values: dict[str, dict]) -> list[tuple[str, str]]:
    """The container, told what to run, and what stays outside of it."""
    inside = [(kind, where) for kind, where in places if kind not in APART]
    if places and not inside:
        return places
    if inside:
        entries = [f"{kind}:{where.removeprefix(base)}/{kind}" for kind, where in inside]
        values[f"{base}/container"] = {"nodes": entries}
    return [("container", base), *(place for place in places if place not in inside)]


def _process(
    executable: str, namespace: str, files: list[Path], log_level: str, respawn: bool
) -> Node:
    return Node(
        package=PACKAGES.get(executable, "newfound_nodes"),
        executable=executable,
        namespace=namespace,
        parameters=[str(file) for file in files],
        arguments=["--ros-args", "--log-level", log_level],
        output="screen",
        emulate_tty=True,
        sigterm_timeout=SIGTERM_TIMEOUT,
        respawn=respawn,
        respawn_delay=RESPAWN_DELAY,
        on_exit=_supervisor(respawn),
    )


def _supervisor(respawn: bool) -> Callable[[ProcessExited, LaunchContext], None]:
    """What happens when a process ends: nothing if it is started again, else the launch fails.

    An exception in an event handler is how a launch description ends `ros2 launch` with a
    non-zero code: a Shutdown action alone ends it with 0.
    """
    started = time.monotonic()
    failed_starts = 0

    def on_exit(event: ProcessExited, context: LaunchContext) -> None:
        nonlocal started, failed_starts
        now = time.monotonic()
        failed_starts = failed_starts + 1 if now - started < SHORT_LIFE else 0
        started = now + RESPAWN_DELAY
        if context.is_shutdown or (event.returncode == 0 and not respawn):
            return
        if not respawn:
            raise RuntimeError(
                f"{event.process_name} died with exit code {event.returncode}, and respawn is off"
            )
        if failed_starts >= MAX_FAILED_STARTS:
            raise RuntimeError(
                f"{event.process_name} ended {failed_starts} times in a row within "
                f"{SHORT_LIFE:.0f} s of its start, last with exit code {event.returncode}: giving "
                "up. Its own messages above say why"
            )

    return on_exit


def _chosen(kind: str, given: dict[str, str]) -> dict[str, object]:
    """What the arguments that were given say about a node of this kind."""
    return {
        parameter: _typed(argument, given[argument])
        for argument, (kinds, parameter, _) in SETTINGS.items()
        if kind in kinds and given[argument]
    }


def _typed(argument: str, text: str) -> object:
    try:
        return TYPES.get(argument, str)(text)
    except ValueError:
        raise ValueError(f"{argument}:={text} is not a number") from None


def _names(text: str) -> list[str]:
    """The parts between the commas."""
    return [name for part in text.split(",") if (name := part.strip("/ "))]


def _read(params_file: str) -> tuple[Path, dict]:
    """The user's parameter file: one of ours by its name, or a path."""
    ours = CONFIG / params_file
    path = ours if "/" not in params_file and ours.exists() else Path(params_file).expanduser()
    if not path.is_file():
        shipped = ", ".join(sorted(file.name for file in CONFIG.glob("*.yaml")))
        raise FileNotFoundError(
            f"params_file: there is no file {path.absolute()}, and none of that name among the "
            f"shipped ones ({shipped})"
        )
    try:
        content = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        why = " ".join(str(error).split())
        raise ValueError(f"params_file: {path} is not YAML: {why}") from None
    if not isinstance(content, dict):
        raise ValueError(f"params_file: {path} has no nodes: ROS wants `node: ros__parameters: …`")
    return path, content


def _entries(content: dict, above: str = "") -> Iterator[tuple[str, dict]]:
    """The names or patterns of nodes in a parameter file, with the values of each."""
    for key, value in content.items():
        if key == "ros__parameters":
            if not isinstance(value or {}, dict):
                raise ValueError(
                    f"params_file: ros__parameters of {above or '/'} is not a list of "
                    f"`name: value`, but {value!r}"
                )
            yield above or "/", value or {}
        elif isinstance(value, dict):
            yield from _entries(value, f"{above}/{str(key).strip('/')}")


def _listed(content: dict) -> list[str]:
    """Names of the nodes that a file tells the container to run."""
    for pattern, values in _entries(content):
        if pattern.endswith("/container"):
            entries = (str(entry).partition(":") for entry in values.get("nodes", ()))
            return [(name or kind).strip("/") for kind, _, name in entries]
    return []


def _warn_about_unused(path: Path, content: dict, names: list[str]) -> None:
    """Warn about nodes of a parameter file that are not launched here."""
    for pattern, _ in _entries(content):
        kind = pattern.rpartition("/")[2]
        # A file for the whole suite may speak of parts that this launch leaves out.
        general = "*" in pattern and kind in ALL
        if general or pattern == "/container" or any(_matches(pattern, name) for name in names):
            continue
        launch.logging.get_logger("newfound").warning(
            f"{path}: no node launched here is called {pattern}, so its parameters have no "
            f"effect; launched are {', '.join(names)}"
        )


def _matches(pattern: str, name: str) -> bool:
    """Whether a pattern of a parameter file means a node: * is one part, ** any number."""

    def match(patterns: list[str], parts: list[str]) -> bool:
        if not patterns:
            return not parts
        first, *rest = patterns
        if first == "**":
            return any(match(rest, parts[skipped:]) for skipped in range(len(parts) + 1))
        return bool(parts) and first in ("*", parts[0]) and match(rest, parts[1:])

    return match(pattern.strip("/").split("/"), name.strip("/").split("/"))


def _write(values: dict[str, dict], path: Path) -> Path:
    """Write a parameter file with these values of each node."""
    content = {name: {"ros__parameters": chosen} for name, chosen in values.items() if chosen}
    path.write_text(yaml.safe_dump(content))
    return path
