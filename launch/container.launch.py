# SPDX-License-Identifier: Apache-2.0
"""Several newfound nodes in one process.

    ros2 launch newfound_bringup container.launch.py params_file:=/path/to/robot.yaml

The file lists the nodes under `/container: ros__parameters: nodes` and holds the parameters
of each; see `container` in the README of newfound_nodes.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, SetEnvironmentVariable
from launch.substitutions import (
    EnvironmentVariable,
    LaunchConfiguration,
    PathJoinSubstitution,
)
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    profile = PathJoinSubstitution([FindPackageShare("newfound_bringup"), "config", "fastdds.xml"])
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "params_file", description="YAML file with the list of nodes and their parameters."
            ),
            DeclareLaunchArgument(
                "namespace",
                default_value="",
                description="Of the container and, above their own, of its nodes.",
            ),
            DeclareLaunchArgument(
                "log_level", default_value="info", description="debug, info, warn, error or fatal."
            ),
            # Shared memory that holds camera images, unless the user has a profile of his own.
            SetEnvironmentVariable(
                "FASTRTPS_DEFAULT_PROFILES_FILE",
                EnvironmentVariable("FASTRTPS_DEFAULT_PROFILES_FILE", default_value=profile),
            ),
            Node(
                package="newfound_nodes",
                executable="container",
                namespace=LaunchConfiguration("namespace"),
                parameters=[LaunchConfiguration("params_file")],
                arguments=["--ros-args", "--log-level", LaunchConfiguration("log_level")],
                output="screen",
                emulate_tty=True,
            ),
        ]
    )
