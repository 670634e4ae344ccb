# SPDX-License-Identifier: Apache-2.0
"""The nodes that a parameter file lists, in one process.

    ros2 launch newfound_bringup container.launch.py params_file:=/path/to/robot.yaml

The file lists the nodes under `/container: ros__parameters: nodes` and holds the parameters of
each. newfound.launch.py does the work, and describes the other arguments.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription


def generate_launch_description() -> LaunchDescription:
    suite = str(Path(__file__).with_name("newfound.launch.py"))
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "params_file", description="YAML file with the list of nodes and their parameters."
            ),
            IncludeLaunchDescription(suite, launch_arguments={"nodes": ""}.items()),
        ]
    )
