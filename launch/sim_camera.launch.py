# SPDX-License-Identifier: Apache-2.0
"""A simulated camera, or several.

    ros2 launch newfound_bringup sim_camera.launch.py source:=/path/to/clip rate:=30.0

newfound.launch.py does the work, and has the arguments.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription


def generate_launch_description() -> LaunchDescription:
    suite = str(Path(__file__).with_name("newfound.launch.py"))
    return LaunchDescription(
        [IncludeLaunchDescription(suite, launch_arguments={"nodes": "sim_camera"}.items())]
    )
