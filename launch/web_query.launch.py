# SPDX-License-Identifier: Apache-2.0
"""The node that asks the web what things are called and what they look like.

    ros2 launch newfound_bringup web_query.launch.py contact:=robots@example.org

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
        [IncludeLaunchDescription(suite, launch_arguments={"nodes": "web_query"}.items())]
    )
