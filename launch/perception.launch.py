# SPDX-License-Identifier: Apache-2.0
"""The adaptive classifier and the place categorizer, for one camera or several.

    ros2 launch newfound_bringup perception.launch.py cameras:=front,rear namespace:=robot

runs /robot/front/adaptive_classifier on /robot/front/image_raw, and so on. All of them share
one process unless use_composition is false.
"""

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
ALL = ("adaptive_classifier", "place_categorizer")
# Argument: the nodes that it is for, and the parameter that it sets.
OVERRIDES = {
    "classifier_checkpoint": (("adaptive_classifier",), "checkpoint"),
    "places_checkpoint": (("place_categorizer",), "checkpoint"),
    "image_topic": (ALL, "image_topic"),
    "image_transport": (ALL, "image_transport"),
    "device": (ALL, "device"),
    "autostart": (ALL, "autostart"),
}


def generate_launch_description() -> LaunchDescription:
    profile = PathJoinSubstitution([*CONFIG, "fastdds.xml"])
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "nodes",
                default_value=",".join(ALL),
                description="What to run for each camera, separated by commas.",
            ),
            DeclareLaunchArgument(
                "cameras",
                default_value="camera",
                description="Namespaces of the cameras, separated by commas; each gets its nodes.",
            ),
            DeclareLaunchArgument(
                "namespace", default_value="", description="Above those of the cameras."
            ),
            DeclareLaunchArgument(
                "image_topic",
                default_value="image_raw",
                description="Topic of the images, in each camera's namespace.",
            ),
            DeclareLaunchArgument(
                "image_transport",
                default_value="",
                description="raw or compressed; empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "classifier_checkpoint",
                default_value="",
                description="Model of the adaptive classifier; empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "places_checkpoint",
                default_value="",
                description="Model of the place categorizer; empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "device",
                default_value="",
                description="cpu or cuda; empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "params_file",
                default_value="",
                description="YAML file that wins over config/<node>.yaml of newfound_bringup.",
            ),
            DeclareLaunchArgument(
                "autostart",
                default_value="",
                description="false under a lifecycle manager; empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "use_composition",
                default_value="true",
                description="One process for all nodes, with one copy of torch, or one for each.",
            ),
            DeclareLaunchArgument(
                "log_level", default_value="info", description="debug, info, warn, error or fatal."
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

    def given(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    kinds = [kind.strip() for kind in given("nodes").split(",")]
    cameras = [camera.strip("/ ") for camera in given("cameras").split(",")]
    shared = {"parameters": _files(kinds, given("params_file")), "output": "screen"}
    log = ["--log-level", given("log_level")]
    base = given("namespace").strip("/")
    if given("use_composition").lower() == "true":
        entries = [f"{kind}:{camera}/{kind}" for camera in cameras for kind in kinds]
        listed = ["-p", f"nodes:=[{', '.join(entries)}]"]
        rules = [r for c in cameras for k in kinds for r in _rules(f"/{base}/{c}", k, given)]
        arguments = ["--ros-args", *listed, *rules, *log]
        return [_node("container", base, arguments, shared)]
    return [
        _node(k, f"{base}/{c}", ["--ros-args", *_rules(f"/{base}/{c}", k, given), *log], shared)
        for c in cameras
        for k in kinds
    ]


def _node(executable: str, namespace: str, arguments: list[str], shared: dict) -> Node:
    return Node(
        package="newfound_nodes",
        executable=executable,
        namespace=namespace,
        arguments=arguments,
        emulate_tty=True,
        **shared,
    )


def _files(kinds: list[str], own: str) -> list:
    """The shipped parameters of each node, and the user's on top."""
    shipped = [PathJoinSubstitution([*CONFIG, f"{kind}.yaml"]) for kind in kinds]
    return [*shipped, own] if own else shipped


def _rules(namespace: str, kind: str, given) -> list[str]:
    """What the arguments that were given say about one node, as rules for its full name."""
    name = f"{namespace}/{kind}".replace("//", "/")
    return [
        part
        for argument, (kinds, parameter) in OVERRIDES.items()
        if kind in kinds and given(argument)
        for part in ("-p", f"{name}:{parameter}:={given(argument)}")
    ]
