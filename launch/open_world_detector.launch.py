# SPDX-License-Identifier: Apache-2.0
"""The open-world detector, for one camera or several.

    ros2 launch newfound_bringup open_world_detector.launch.py checkpoint:=/path/to/model

newfound.launch.py does the work, and has the other arguments.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.substitutions import LaunchConfiguration


def generate_launch_description() -> LaunchDescription:
    suite = str(Path(__file__).with_name("newfound.launch.py"))
    chosen = {
        "nodes": "open_world_detector",
        "detector_checkpoint": LaunchConfiguration("checkpoint"),
    }
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "checkpoint",
                default_value="",
                description="Folder or name of the model; empty: as in the parameter files.",
            ),
            IncludeLaunchDescription(suite, launch_arguments=chosen.items()),
        ]
    )
