# SPDX-License-Identifier: Apache-2.0
"""The operator's page alone, for robots that run already, here or elsewhere in the ROS domain.

    ros2 launch newfound_bringup console.launch.py console_port:=8421

The same as newfound.launch.py with nodes:=console, which has the other arguments.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription


def generate_launch_description() -> LaunchDescription:
    suite = str(Path(__file__).with_name("newfound.launch.py"))
    nodes = {"nodes": "console"}
    return LaunchDescription([IncludeLaunchDescription(suite, launch_arguments=nodes.items())])
