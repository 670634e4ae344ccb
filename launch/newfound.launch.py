# SPDX-License-Identifier: Apache-2.0
"""The whole suite, for one camera or several.

    ros2 launch newfound_bringup newfound.launch.py cameras:=front,rear namespace:=robot
    ros2 launch newfound_bringup newfound.launch.py simulation:=true

The first runs /robot/front/adaptive_classifier on /robot/front/image_raw, and so on, and one
/robot/web_query for all of them. The launch files of the parts include this one.
"""

import tempfile
from pathlib import Path

import yaml
from ament_index_python.packages import get_package_share_path
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
from launch.substitutions import EnvironmentVariable, LaunchConfiguration
from launch_ros.actions import Node

CONFIG = get_package_share_path("newfound_bringup") / "config"
LOOKING = ("adaptive_classifier", "place_categorizer", "open_world_detector")
SUITE = (*LOOKING, "curator", "web_query")
ALL = (*SUITE, "sim_camera")
FOR_THE_ROBOT = ("web_query",)  # the others are there once for each camera
# The simulated camera is a process of its own, as a driver is.
PACKAGES = {"web_query": "newfound_web", "sim_camera": "newfound_sim"}  # else newfound_nodes

CLASSIFIER, PLACES, DETECTOR = ((kind,) for kind in LOOKING)
WEB, CAMERA = ("web_query",), ("sim_camera",)
BOOLEAN = ("true", "false", "True", "False")
# Arguments that set parameters: the nodes, the parameter, what it is.
SETTINGS = {
    "image_topic": (LOOKING, "image_topic", "Topic of the images, in the camera's namespace"),
    "image_transport": (LOOKING, "image_transport", "raw or compressed"),
    "device": (LOOKING, "device", "cpu, cuda or cuda:1"),
    "classifier_checkpoint": (CLASSIFIER, "checkpoint", "Model of the adaptive classifier"),
    "places_checkpoint": (PLACES, "checkpoint", "Model of the place categorizer"),
    "detector_checkpoint": (DETECTOR, "checkpoint", "First model of the detector"),
    "proposer": (DETECTOR, "proposer", "How objects are found: depth, rpn or whole_image"),
    "proposer_checkpoint": (DETECTOR, "proposer_checkpoint", "Model of the proposer rpn"),
    "depth_topic": (DETECTOR, "depth_topic", "Depth images, in the camera's namespace"),
    "knowledge_base": (DETECTOR, "knowledge_base", "Folder of what is learned; one camera"),
    "library_folder": (WEB, "library_folder", "Folder of labelled images"),
    "image_folder": ((*WEB, "curator"), "image_folder", "Where fetched images go"),
    "contact": (WEB, "contact", "E-mail or address told to servers"),
    "source": (CAMERA, "source", "Clip, scenario, image folder or video"),
    "rate": (CAMERA, "rate", "Simulated frames per second, 0 as recorded"),
    "loop": (CAMERA, "loop", "Whether the simulated camera begins anew, true or false"),
    "autostart": (ALL, "autostart", "false under a lifecycle manager"),
}
ARGUMENTS = {  # name: default, description
    "nodes": (",".join(SUITE), "What to run, separated by commas."),
    "cameras": ("camera", "Namespaces of the cameras, separated by commas; each gets its nodes."),
    "namespace": ("", "Above those of the cameras."),
    "simulation": ("false", "A simulated camera in each namespace, with simulation.yaml."),
    "params_file": ("", "YAML file, or the name of one in config/, that wins over those there."),
    "use_composition": ("true", "One process for all nodes, with one copy of torch, or one each."),
    "log_level": ("info", "debug, info, warn, error or fatal."),
}
CHOICES = {
    "simulation": BOOLEAN,
    "use_composition": BOOLEAN,
    "autostart": ("", *BOOLEAN),
    "loop": ("", *BOOLEAN),
}


def _true(text: str) -> bool:
    return text.lower() == "true"


TYPES = {"rate": float, "loop": _true, "autostart": _true}  # of these arguments; else text


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


def _processes(context: LaunchContext) -> list[Node]:
    """A container and the simulated cameras, or a process for each node."""
    given = {n: LaunchConfiguration(n).perform(context) for n in (*ARGUMENTS, *SETTINGS)}
    base = f"/{given['namespace'].strip('/')}".rstrip("/")
    simulated = _true(given["simulation"])
    kinds = _names(given["nodes"]) + (["sim_camera"] if simulated else [])
    if unknown := set(kinds) - set(ALL):
        raise ValueError(f"no node {', '.join(unknown)}; there are: {', '.join(ALL)}")
    places = [
        (kind, base if kind in FOR_THE_ROBOT else f"{base}/{camera}")
        for camera in _names(given["cameras"])
        for kind in kinds
    ]
    places = list(dict.fromkeys(places))
    values = {f"{where}/{kind}": _chosen(kind, given) for kind, where in places}
    if _true(given["use_composition"]):
        places = _composed(places, base, values)
    # Later files win: what is shipped, how nodes are placed here, what the user wrote, what the
    # arguments say. All but the arguments speak of nodes by pattern, as a full name would win.
    files = [
        *(CONFIG / f"{kind}.yaml" for kind in kinds),
        *([CONFIG / "simulation.yaml"] if simulated else []),
        _file(_wiring(base)),
        *([_found(given["params_file"])] if given["params_file"] else []),
        *([_file(values)] if any(values.values()) else []),
    ]
    return [_process(kind, where, files, given["log_level"]) for kind, where in places]


def _wiring(base: str) -> dict[str, dict]:
    """What the namespaces chosen here mean to the nodes in them."""
    cameras = {f"/**/{kind}": {"image_topic": "image_raw"} for kind in LOOKING}
    return {**cameras, "/**/curator": {"web_query": f"{base}/web_query"}}


def _composed(places: list, base: str, values: dict[str, dict]) -> list[tuple[str, str]]:
    """The container, told what to run, and what stays outside of it."""
    inside = [(kind, where) for kind, where in places if kind != "sim_camera"]
    if not inside:
        return places
    entries = [f"{kind}:{where.removeprefix(base)}/{kind}" for kind, where in inside]
    values[f"{base}/container"] = {"nodes": entries}
    return [("container", base), *(place for place in places if place not in inside)]


def _process(executable: str, namespace: str, files: list[Path], log_level: str) -> Node:
    return Node(
        package=PACKAGES.get(executable, "newfound_nodes"),
        executable=executable,
        namespace=namespace,
        parameters=[str(file) for file in files],
        arguments=["--ros-args", "--log-level", log_level],
        output="screen",
        emulate_tty=True,
        sigterm_timeout="30",  # s after Ctrl-C: what was adapted to may have to be saved
    )


def _chosen(kind: str, given: dict[str, str]) -> dict[str, object]:
    """What the arguments that were given say about a node of this kind."""
    return {
        parameter: TYPES.get(argument, str)(given[argument])
        for argument, (kinds, parameter, _) in SETTINGS.items()
        if kind in kinds and given[argument]
    }


def _names(text: str) -> list[str]:
    """The parts between the commas."""
    return [name for part in text.split(",") if (name := part.strip("/ "))]


def _found(params_file: str) -> Path:
    """A file of ours by its name, or a path."""
    ours = CONFIG / params_file
    return ours if "/" not in params_file and ours.exists() else Path(params_file).expanduser()


def _file(values: dict[str, dict]) -> Path:
    """A parameter file with these values of each node."""
    content = {name: {"ros__parameters": chosen} for name, chosen in values.items() if chosen}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        yaml.safe_dump(content, file)
    return Path(file.name)
