# SPDX-License-Identifier: Apache-2.0
"""The place categorizer, for one camera or several.

    ros2 launch newfound_bringup place_categorizer.launch.py checkpoint:=/path/to/model

newfound.launch.py does the work, and has the other arguments.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    suite = PathJoinSubstitution(
        [FindPackageShare("newfound_bringup"), "launch", "newfound.launch.py"]
    )
    chosen = {
        "nodes": "place_categorizer",
        "places_checkpoint": LaunchConfiguration("checkpoint"),
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
