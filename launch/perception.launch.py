# SPDX-License-Identifier: Apache-2.0
"""The adaptive classifier and the place categorizer, for one camera or several.

    ros2 launch newfound_bringup perception.launch.py cameras:=front,rear

The same as newfound.launch.py with nodes:=adaptive_classifier,place_categorizer, which has the
other arguments.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription


def generate_launch_description() -> LaunchDescription:
    suite = str(Path(__file__).with_name("newfound.launch.py"))
    nodes = {"nodes": "adaptive_classifier,place_categorizer"}
    return LaunchDescription([IncludeLaunchDescription(suite, launch_arguments=nodes.items())])
