# SPDX-License-Identifier: Apache-2.0
"""The curator, which asks what unknown objects are, for one camera or several.

    ros2 launch newfound_bringup curator.launch.py cameras:=front,rear

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
    return LaunchDescription(
        [IncludeLaunchDescription(suite, launch_arguments={"nodes": "curator"}.items())]
    )
