# SPDX-License-Identifier: Apache-2.0
"""A simulated camera, or several.

    ros2 launch newfound_bringup sim_camera.launch.py source:=/path/to/clip rate:=30.0

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
        [IncludeLaunchDescription(suite, launch_arguments={"nodes": "sim_camera"}.items())]
    )
