# SPDX-License-Identifier: Apache-2.0
"""The node that asks the web what things are called and what they look like.

    ros2 launch newfound_bringup web_query.launch.py library_folder:=/path/to/library

Keys of services are read from the environment: see docs/web_query.md.
"""

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

CONFIG = [FindPackageShare("newfound_bringup"), "config"]


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "params_file",
                default_value=PathJoinSubstitution([*CONFIG, "web_query.yaml"]),
                description="YAML file with the node's parameters.",
            ),
            DeclareLaunchArgument(
                "library_folder",
                default_value="",
                description="Folder of labelled images; empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "image_folder",
                default_value="",
                description="Where fetched images go; empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "contact",
                default_value="",
                description="E-mail or address told to servers; empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "autostart",
                default_value="",
                description="false under a lifecycle manager; empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "namespace", default_value="", description="Of the node and its services."
            ),
            DeclareLaunchArgument(
                "log_level", default_value="info", description="debug, info, warn, error or fatal."
            ),
            OpaqueFunction(function=_web_query),
        ]
    )


def _web_query(context: LaunchContext) -> list[Node]:
    """The node; arguments that were given win over the parameter file."""
    kinds = {
        "library_folder": str,
        "image_folder": str,
        "contact": str,
        "autostart": lambda text: text.lower() == "true",
    }
    given = {name: LaunchConfiguration(name).perform(context) for name in kinds}
    overrides = {name: kinds[name](text) for name, text in given.items() if text}
    return [
        Node(
            package="newfound_web",
            executable="web_query",
            namespace=LaunchConfiguration("namespace"),
            parameters=[LaunchConfiguration("params_file"), overrides],
            arguments=["--ros-args", "--log-level", LaunchConfiguration("log_level")],
            output="screen",
            emulate_tty=True,
        )
    ]
