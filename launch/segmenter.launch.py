# SPDX-License-Identifier: Apache-2.0
"""The segmenter, for one camera or several.

    ros2 launch newfound_bringup segmenter.launch.py checkpoint:=/path/to/model

The same as newfound.launch.py with nodes:=segmenter, which has the other arguments.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription


def generate_launch_description() -> LaunchDescription:
    suite = str(Path(__file__).with_name("newfound.launch.py"))
    nodes = {"nodes": "segmenter"}
    return LaunchDescription([IncludeLaunchDescription(suite, launch_arguments=nodes.items())])
