# SPDX-License-Identifier: Apache-2.0
"""The object memory, which remembers where things were seen, of one camera or several.

    ros2 launch newfound_bringup object_memory.launch.py cameras:=front,rear

The same as newfound.launch.py with nodes:=open_world_detector,object_memory, which has the other
arguments. Give target_frame:=map if the cameras move.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription


def generate_launch_description() -> LaunchDescription:
    suite = str(Path(__file__).with_name("newfound.launch.py"))
    nodes = {"nodes": "open_world_detector,object_memory"}
    return LaunchDescription([IncludeLaunchDescription(suite, launch_arguments=nodes.items())])
