# SPDX-License-Identifier: Apache-2.0
"""The adaptive classifier and the place categorizer, for one camera or several.

    ros2 launch newfound_bringup perception.launch.py cameras:=front,rear

newfound.launch.py does the work, and has the arguments.
"""

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription
from launch.substitutions import PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    suite = PathJoinSubstitution(
        [FindPackageShare("newfound_bringup"), "launch", "newfound.launch.py"]
    )
    both = {"nodes": "adaptive_classifier,place_categorizer"}
    return LaunchDescription([IncludeLaunchDescription(suite, launch_arguments=both.items())])
