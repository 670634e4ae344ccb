# SPDX-License-Identifier: Apache-2.0
"""The perception nodes, for one camera or several: all of them, or those that `nodes` names.

    ros2 launch newfound_bringup perception.launch.py cameras:=front,rear namespace:=robot

runs /robot/front/adaptive_classifier on /robot/front/image_raw, and so on. All of them share
one process unless use_composition is false.
"""

import tempfile

import yaml
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
from launch.substitutions import (
    EnvironmentVariable,
    LaunchConfiguration,
    PathJoinSubstitution,
)
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

CONFIG = [FindPackageShare("newfound_bringup"), "config"]
ALL = ("adaptive_classifier", "place_categorizer", "open_world_detector")
USUAL = ALL[:2]  # the detector wants depth, or a model that finds objects
# Argument: the nodes that it is for, and the parameter that it sets.
OVERRIDES = {
    "classifier_checkpoint": (("adaptive_classifier",), "checkpoint"),
    "places_checkpoint": (("place_categorizer",), "checkpoint"),
    "detector_checkpoint": (("open_world_detector",), "checkpoint"),
    "knowledge_base": (("open_world_detector",), "knowledge_base"),
    "proposer": (("open_world_detector",), "proposer"),
    "proposer_checkpoint": (("open_world_detector",), "proposer_checkpoint"),
    "depth_topic": (("open_world_detector",), "depth_topic"),
    "image_topic": (ALL, "image_topic"),
    "image_transport": (ALL, "image_transport"),
    "device": (ALL, "device"),
    "autostart": (ALL, "autostart"),
}


ARGUMENTS = {  # name: default, description
    "nodes": (",".join(USUAL), f"For each camera, separated by commas, of {', '.join(ALL)}."),
    "cameras": ("camera", "Namespaces of the cameras, separated by commas; each gets its nodes."),
    "namespace": ("", "Above those of the cameras."),
    "image_topic": ("image_raw", "Topic of the images, in each camera's namespace."),
    "image_transport": ("", "raw or compressed; empty: as in params_file."),
    "classifier_checkpoint": ("", "Of the adaptive classifier; empty: as in params_file."),
    "places_checkpoint": ("", "Of the place categorizer; empty: as in params_file."),
    "detector_checkpoint": ("", "Of the open-world detector; empty: as in params_file."),
    "knowledge_base": (
        "",
        "Folder of the detector's knowledge, for one camera only; empty: as in params_file.",
    ),
    "proposer": ("", "How the detector finds objects; empty: as in params_file."),
    "proposer_checkpoint": ("", "Model of the proposer rpn; empty: as in params_file."),
    "depth_topic": ("", "Depth in each camera's namespace; empty: as in params_file."),
    "device": ("", "cpu or cuda; empty: as in params_file."),
    "params_file": ("", "YAML file that wins over config/<node>.yaml of newfound_bringup."),
    "autostart": ("", "false under a lifecycle manager; empty: as in params_file."),
    "use_composition": ("true", "One process for all nodes, with one copy of torch, or one each."),
    "log_level": ("info", "debug, info, warn, error or fatal."),
}


def generate_launch_description() -> LaunchDescription:
    profile = PathJoinSubstitution([*CONFIG, "fastdds.xml"])
    return LaunchDescription(
        [
            *(
                DeclareLaunchArgument(name, default_value=default, description=description)
                for name, (default, description) in ARGUMENTS.items()
            ),
            # Shared memory that holds camera images, unless the user has a profile of his own.
            SetEnvironmentVariable(
                "FASTRTPS_DEFAULT_PROFILES_FILE",
                EnvironmentVariable("FASTRTPS_DEFAULT_PROFILES_FILE", default_value=profile),
            ),
            OpaqueFunction(function=_processes),
        ]
    )


def _processes(context: LaunchContext) -> list[Node]:
    """One container, or a process for each node of each camera."""
    given = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    kinds = [kind.strip() for kind in given["nodes"].split(",")]
    cameras = [camera.strip("/ ") for camera in given["cameras"].split(",")]
    base = f"/{given['namespace'].strip('/')}".rstrip("/")
    values = {
        f"{base}/{camera}/{kind}": _chosen(kind, given) for camera in cameras for kind in kinds
    }
    places = [(kind, f"{base}/{camera}") for camera in cameras for kind in kinds]
    if given["use_composition"].lower() == "true":
        entries = [f"{kind}:{camera}/{kind}" for camera in cameras for kind in kinds]
        values[f"{base}/container"] = {"nodes": entries}
        places = [("container", base)]
    # Later files win: what is shipped, what the user wrote, what the arguments say.
    shipped = [PathJoinSubstitution([*CONFIG, f"{kind}.yaml"]) for kind in kinds]
    own = [given["params_file"]] if given["params_file"] else []
    return [
        Node(
            package="newfound_nodes",
            executable=executable,
            namespace=namespace,
            parameters=[*shipped, *own, _file(values)],
            arguments=["--ros-args", "--log-level", given["log_level"]],
            output="screen",
            emulate_tty=True,
            sigterm_timeout="30",  # s after Ctrl-C: what was adapted to may have to be saved
        )
        for executable, namespace in places
    ]


def _chosen(kind: str, given: dict[str, str]) -> dict[str, object]:
    """What the arguments that were given say about a node of this kind."""
    return {
        parameter: yaml.safe_load(given[argument])
        for argument, (kinds, parameter) in OVERRIDES.items()
        if kind in kinds and given[argument]
    }


def _file(values: dict[str, dict]) -> str:
    """A parameter file with these values of each node."""
    content = {name: {"ros__parameters": chosen} for name, chosen in values.items() if chosen}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        yaml.safe_dump(content, file)
    return file.name
