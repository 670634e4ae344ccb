# SPDX-License-Identifier: Apache-2.0
"""The node that asks the web for labels and images.

    ros2 launch newfound_bringup web_query.launch.py contact:=robots@example.org

The same as newfound.launch.py with nodes:=web_query, which has the other arguments.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription


def generate_launch_description() -> LaunchDescription:
    suite = str(Path(__file__).with_name("newfound.launch.py"))
    nodes = {"nodes": "web_query"}
    return LaunchDescription([IncludeLaunchDescription(suite, launch_arguments=nodes.items())])
