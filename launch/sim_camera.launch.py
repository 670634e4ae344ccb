# SPDX-License-Identifier: Apache-2.0
"""The simulated camera, for one camera or several.

    ros2 launch newfound_bringup sim_camera.launch.py source:=/path/to/clip rate:=30.0

The same as newfound.launch.py with nodes:=sim_camera, which has the other arguments.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription


def generate_launch_description() -> LaunchDescription:
    suite = str(Path(__file__).with_name("newfound.launch.py"))
    nodes = {"nodes": "sim_camera"}
    return LaunchDescription([IncludeLaunchDescription(suite, launch_arguments=nodes.items())])
